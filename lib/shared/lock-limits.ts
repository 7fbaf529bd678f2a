/* The limits of locks. */

const minuteSeconds = 60
const daySeconds = 24 * 60 * minuteSeconds
/** Seconds until a lock expires if its owner chose no time. */
export const defaultLockSeconds = daySeconds
/** Minimum number of seconds until a lock expires. */
export const minLockSeconds = minuteSeconds
/** Maximum number of seconds until a lock expires. */
export const maxLockSeconds = 30 * daySeconds
/** Maximum number of characters of a reason. */
export const maxLockReasonLength = 200
