/* Labels of nodes: `zone=eu`. */
import { checked, line, record, type Read } from '../base/fields.js'
import { fleetLimits } from './node.js'

const keyPattern = /^[A-Za-z0-9][A-Za-z0-9._/-]*$/

/** Returns why the key of a label is not usable, as the end of a sentence, or null. */
export function labelKeyFault(key: string): string | null {
  if (keyPattern.test(key) && key.length <= fleetLimits.labelLength) return null
  return `expected a name of letters, digits, ".", "_", "/" and "-", at most ${fleetLimits.labelLength} characters`
}

/** Reads the labels of a node. */
export const nodeLabels: Read<Record<string, string>> = Object.assign(
  checked(
    record(line({ max: fleetLimits.labelLength }), key => {
      const fault = labelKeyFault(key)
      return fault === null ? null : `is not a name of a label: ${fault}`
    }),
    labels => {
      const count = Object.keys(labels).length
      return count <= fleetLimits.labels ? null : `${count} labels, at most ${fleetLimits.labels} are allowed`
    }
  ),
  { example: { zone: 'eu' } }
)

/** Parses `key=value`. Returns null if the text is something else. */
export function parseLabel(text: string): { key: string; value: string } | null {
  const at = text.indexOf('=')
  const [key, value] = [text.slice(0, Math.max(0, at)), text.slice(at + 1)]
  return at < 1 || labelKeyFault(key) !== null || value.length > fleetLimits.labelLength ? null : { key, value }
}
