// Preloaded into a worker process: its clock is CLOCK_AHEAD_MS ahead of everybody else's.
const RealDate = Date;
const ahead = Number(process.env.CLOCK_AHEAD_MS ?? 0);

globalThis.Date = class extends RealDate {
  constructor(...parts) {
    if (parts.length === 0) super(RealDate.now() + ahead);
    else super(...parts);
  }

  static now() {
    return RealDate.now() + ahead;
  }
};
