import { maxTerminalSide, type TerminalInput } from '../model/terminal.js'

/** Parses a frame of a client. Returns the input, or a sentence that says why it is invalid. */
export function readMessage(text: string): TerminalInput | { type: 'invalid'; sentence: string } {
  let given: unknown
  try {
    given = JSON.parse(text)
  } catch {
    return invalid('a JSON object is needed')
  }
  if (typeof given !== 'object' || given === null) return invalid('a JSON object is needed')
  const { type, data, at, cols, rows, bytes } = given as Record<string, unknown>
  switch (type) {
    case 'input':
      if (typeof data !== 'string') return invalid('"data" must be a string')
      if (at === undefined) return { type, data }
      return isCount(at) ? { type, data, at } : invalid('"at" must be a whole number, 0 or greater')
    case 'resize':
      if (!isSide(cols) || !isSide(rows))
        return invalid(`"cols" and "rows" must be whole numbers from 1 to ${maxTerminalSide}`)
      return { type, cols, rows }
    case 'ping':
      return { type }
    case 'ack':
      return isCount(bytes) ? { type, bytes } : invalid('"bytes" must be a whole number, 0 or greater')
    default:
      return invalid('"type" must be input, resize, ping or ack')
  }
}

function isSide(value: unknown): value is number {
  return isCount(value) && value >= 1 && value <= maxTerminalSide
}

function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0
}

function invalid(why: string): { type: 'invalid'; sentence: string } {
  return { type: 'invalid', sentence: `Invalid message: ${why}` }
}
