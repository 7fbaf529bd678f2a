/** Half of the precision of file times in Node. */
const halfMicrosecondMs = 0.0005

/**
 * Returns the seconds to pass to `utimes` for a time in milliseconds since 1970. Node truncates them to whole
 * microseconds. Half a microsecond is added because a time that a double cannot represent exactly would otherwise lose
 * one microsecond.
 */
export function fileSeconds(timeMs: number): number {
  return (timeMs + (timeMs < 0 ? -halfMicrosecondMs : halfMicrosecondMs)) / 1000
}
