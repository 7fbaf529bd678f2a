/*
 * The built-in rules of `svc push` (§4.13) that leave files out of an archive, applied to the contents of a folder.
 * Pure. A test compares the decisions with those of the command.
 */
import { builtinIgnore, isBroughtAlong, neverPushed } from '../shared/tree-text.js'

const builtin = builtinIgnore.map(expressionOf)
const never = neverPushed.map(expressionOf)

function expressionOf(name: string): RegExp {
  return new RegExp(`^${name.replaceAll('.', '\\.').replaceAll('*', '.*')}$`)
}

/** Whether a file or directory, with everything below it, is never packed. `path` is relative to the folder. */
export function isNeverPacked(path: string): boolean {
  return path.split('/').some(name => never.some(rule => rule.test(name)))
}

/** Whether a file or directory, with everything below it, is left out. `path` is relative to the folder. */
export function isLeftOut(path: string): boolean {
  const segments = path.split('/')
  const isOut = (name: string, depth: number): boolean =>
    builtin.some(rule => rule.test(name)) && !isBroughtAlong(name, segments.slice(0, depth).join('/'))
  return isNeverPacked(path) || segments.some(isOut)
}
