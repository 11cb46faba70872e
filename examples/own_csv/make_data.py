"""Write patients.csv from the breast cancer data in scikit-learn (Wolberg, Street and Mangasarian, 1995).

The data are 569 tumours: ten measurements of cell nuclei (means), and whether the tumour is malignant. They contain no
hospitals; each patient is assigned at random to one of three hospitals of different sizes.
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
