/*
 * What a terminal shows of a text: without control sequences (ECMA-48 §5.4, §5.6). Logs are searched, and their levels
 * and times are read, as the eye sees them.
 */

/** CSI, OSC with its text, DCS and similar, and escapes of two characters; each also cut off by the end of a line. */
const sequence =
  /\x1b(?:\[[0-?]*[ -/]*(?:[@-~]|$)|\][^\x07\x1b\n]*(?:\x07|\x1b\\|$)|[PX^_][^\x1b\n]*(?:\x1b\\|$)|[ -/]*[0-OQ-WYZ\\`-~])/gm

/** Returns a text without control sequences. */
export function visibleText(text: string): string {
  return text.includes('\x1b') ? text.replace(sequence, '') : text
}

const sequences = new RegExp(`(?:${sequence.source})+`, 'my')

/** Returns where the control sequences at a position end: the position itself if there are none. */
export function endOfSequences(text: string, at: number): number {
  sequences.lastIndex = at
  return sequences.test(text) ? sequences.lastIndex : at
}
