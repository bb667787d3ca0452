module mayflydb

go 1.22
