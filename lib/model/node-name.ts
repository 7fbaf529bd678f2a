/* Names of nodes. They are operands of commands and parts of paths, so they are one word. */
import { checked, line, type Read } from '../base/fields.js'
import { fleetLimits } from './node.js'

/** Returns why a text cannot be the name of a node, as the end of a sentence, or null. */
export function nodeNameFault(name: string): string | null {
  if (!/^[A-Za-z0-9][A-Za-z0-9._-]*$/.test(name)) return 'expected a word of letters, digits, ".", "_" and "-"'
  return /^node_/i.test(name) ? 'a name that begins with "node_" looks like an id' : null
}

/** Reads the name of a node. */
export const nodeName: Read<string> = Object.assign(
  checked(line({ min: 1, max: fleetLimits.nameLength, trim: true }), nodeNameFault),
  { example: 'web-1' }
)
