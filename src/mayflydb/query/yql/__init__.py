"""YQL, the language of YDB: texts to trees, trees to plans, plans over whatever tables they are given. Pure."""
