/* Numbers and texts of the API with a meaning of their own. The description of the API takes their limits from here. */

/** A point in time as ISO 8601 text in UTC. @format date-time */
export type Instant = string
/** A size in bytes. @minimum 0 */
export type Bytes = number
