S(RESOURCES, "pace", 0, "RATE", RATE, settings.limit_rate, FOR_MOVES,
  "another name of --limit-rate, which all ranks must give alike", .min = 1024, .max = INT64_MAX,
  .agree = FOR_MOVES)
