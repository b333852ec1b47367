# RPostgreSQL and dbplyr.

words <- commandArgs(TRUE)
question <- words[5]

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

cat('{"step": "version", "version": "', as.character(packageVersion("RPostgreSQL")), ", ", as.character(packageVersion("dbplyr")), '"}\n', sep = "")
db <- NULL
step("connect", db <- DBI::dbConnect(RPostgreSQL::PostgreSQL(), host = words[1], port = as.integer(words[2]), user = words[3], password = words[4], dbname = "hushql"))
if (is.null(db)) quit(status = 0)
# An error of the server is a warning there, and the answer is NULL.
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
step("preview", asked("SELECT * FROM people LIMIT 10"))
invisible(DBI::dbDisconnect(db))
