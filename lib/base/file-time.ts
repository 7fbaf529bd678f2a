/** Half of what a file's time is cut to. */
const halfMicrosecondMs = 0.0005

/**
 * The seconds that `utimes` is given for a time in milliseconds since 1970. Node cuts them to whole microseconds, so
 * without half a microsecond more a time that a double cannot hold exactly would come out one microsecond less.
 */
export function fileSeconds(timeMs: number): number {
  return (timeMs + (timeMs < 0 ? -halfMicrosecondMs : halfMicrosecondMs)) / 1000
}
