import { build } from '../../scripts/build.mjs';

/** Suites that start processes run them from dist/, as a user does: it is brought up to date once, before the first. */
export default build;
