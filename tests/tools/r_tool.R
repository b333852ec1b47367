# RPostgres and RPostgreSQL, each with dbplyr.

words <- commandArgs(TRUE)
question <- words[5]
driver <- words[6]

said <- function(step, error = NULL) {
  quoted <- function(text) paste0('"', gsub('(["\\\\])', "\\\\\\1", substr(gsub("[[:space:]]+", " ", text), 1, 400)), '"')
  more <- if (is.null(error)) "" else paste0(', "error": ', quoted(error))
  cat('{"step": ', quoted(step), more, "}\n", sep = "")
}

step <- function(name, run) {
  tryCatch({
    force(run)
    said(name)
  }, error = function(error) said(name, conditionMessage(error)))
}

expect <- function(condition, message) if (!isTRUE(condition)) stop(message)

cat('{"step": "version", "version": "', as.character(packageVersion(driver)), ", ", as.character(packageVersion("dbplyr")), '"}\n', sep = "")
db <- NULL
made <- if (driver == "RPostgres") RPostgres::Postgres() else RPostgreSQL::PostgreSQL()
connected <- function(password) DBI::dbConnect(made, host = words[1], port = as.integer(words[2]), user = words[3], password = password, dbname = "hushql")
step("connect", db <- connected(words[4]))
if (is.null(db)) quit(status = 0)
# An error of the server is a warning in RPostgreSQL, and the answer is NULL.
asked <- function(sql) {
  answer <- DBI::dbGetQuery(db, sql)
  if (is.null(answer)) stop("no answer")
  answer
}
step("tables", expect("people" %in% DBI::dbListTables(db), "no table people"))
step("columns", expect(length(DBI::dbListFields(db, "people")) == 7, "other columns"))
step("exists", expect(DBI::dbExistsTable(db, "people"), "no table people"))
step("question", expect(asked(question)[1, 1] == 200, "not 200 people"))
people <- NULL
step("dbplyr: tbl", people <- dplyr::tbl(db, "people"))
if (!is.null(people)) {
  step("dbplyr: count", dplyr::collect(dplyr::count(people)))
  step("dbplyr: groups", dplyr::collect(dplyr::count(people, city)))
  step("dbplyr: filter", dplyr::collect(dplyr::count(dplyr::filter(people, age > 30))))
  step("dbplyr: mean", dplyr::collect(dplyr::summarise(people, wage = mean(age, na.rm = TRUE))))
}
if (driver == "RPostgres") {
  n <- function(sql, ...) as.integer(DBI::dbGetQuery(db, sql, params = list(...))[1, 1])
  people <- function(name, condition, wanted, ...) {
    step(paste("parameter:", name), {
      found <- n(paste(question, "WHERE", condition), ...)
      expect(found == wanted, paste("found", found))
    })
  }
  people("between", "day BETWEEN $1 AND $2", 30, as.Date("2024-02-01"), as.Date("2024-03-01"))
  people("like", "city LIKE $1", 100, "R%")
  people("ilike", "city ILIKE '%' || $1 || '%'", 100, "OS")
  people("division", "age / $1 = 2", 60, 30L)
  people("remainder", "age % $1 = 0", 66, 3L)
  people("year", "extract(year FROM day) = $1", 200, 2024L)
  people("time", "seen >= $1", 105, as.POSIXct("2024-01-05", tz = "UTC"))
  people("fraction", "wage > $1", 100, 150.5)
  people("boolean", "ok = $1", 100, TRUE)
  people("list", "age IN ($1, $2)", 6, 3L, 4L)
  people("any", "city = ANY($1::text[])", 100, "{Rome,Bonn}")
  people("null", "age > $1", 0, NA_integer_)
  step("parameter: having", expect(nrow(DBI::dbGetQuery(db, "SELECT city, count(*) AS n FROM people GROUP BY city HAVING count(*) > $1", params = list(10L))) == 2, "other groups"))
  step("parameter: limit", expect(nrow(DBI::dbGetQuery(db, "SELECT k FROM numbers ORDER BY k LIMIT $1", params = list(3L))) == 3, "other rows"))
  step("several values", {
    asking <- DBI::dbSendQuery(db, paste(question, "WHERE age > $1"))
    DBI::dbBind(asking, list(c(30L, 60L)))
    found <- DBI::dbFetch(asking)
    DBI::dbClearResult(asking)
    expect(nrow(found) == 2, "not two answers")
  })
  step("page by page", {
    asking <- DBI::dbSendQuery(db, "SELECT k FROM numbers ORDER BY k")
    found <- nrow(DBI::dbFetch(asking, n = 10))
    DBI::dbClearResult(asking)
    expect(found == 10, "not ten rows")
  })
  step("types", {
    asking <- DBI::dbSendQuery(db, "SELECT count(*) AS n, avg(age)::float8 AS mean, city FROM people GROUP BY city")
    found <- DBI::dbColumnInfo(asking)
    DBI::dbClearResult(asking)
    expect(identical(found$`.typname`, c("int8", "float8", "text")), paste(found$`.typname`, collapse = " "))
  })
  step("objects", expect(nrow(DBI::dbListObjects(db)) > 0, "no objects"))
  step("transaction", DBI::dbWithTransaction(db, DBI::dbGetQuery(db, question)))
  step("spent budget", DBI::dbGetQuery(db, "SELECT count(*) AS n FROM few"))
  step("wrong password", {
    taken <- tryCatch({ DBI::dbDisconnect(connected("wrong")); TRUE }, error = function(error) FALSE)
    expect(!taken, "a wrong password is taken")
  })
}
step("preview", asked("SELECT * FROM people LIMIT 10"))
invisible(DBI::dbDisconnect(db))
