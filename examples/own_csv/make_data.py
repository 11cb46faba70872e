"""Makes patients.csv of the breast cancer data that scikit-learn brings along (Wolberg, Street and Mangasarian, 1995).

569 tumours, ten measurements of their cells' nuclei (the means), and whether the tumour is malignant. Which hospital
has which patient is not in the data: here three hospitals of different sizes share them at random.
"""

import csv
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer

HOSPITALS = {"north": 0.5, "south": 0.3, "coast": 0.2}


def main(path: Path) -> None:
    data = load_breast_cancer()
    hospitals = np.random.default_rng(1).choice(list(HOSPITALS), size=len(data.target), p=list(HOSPITALS.values()))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["hospital", *data.feature_names[:10], "diagnosis"])
        for hospital, numbers, target in zip(hospitals, data.data[:, :10], data.target):
            writer.writerow([hospital, *numbers, data.target_names[target]])


if __name__ == "__main__":
    main(Path(__file__).with_name("patients.csv"))
