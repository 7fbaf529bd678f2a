/*
 * The lines of a JSON text: where each value stands, by its path in the form of errors (`projects[3].policy.gate`). The
 * text is valid JSON already.
 */
import { Refusal } from '../../base/errors.js'

const token = /"(?:[^"\\]|\\.)*"|[{}[\]:,\n]|[^\s{}[\]:,"]+/g

interface Open {
  path: string
  /** The keys of an object so far; null for a list. */
  keys: Set<string> | null
  /** The key or the index of the current value. */
  at: string | number
  isKeyNext: boolean
}

/** Returns the line of each value by its path. Refuses (`broken_config`) a key that an object has twice. */
export function jsonLines(text: string, name: string): Map<string, number> {
  const lines = new Map<string, number>()
  const open: Open[] = []
  let line = 1
  for (const [word] of text.matchAll(token)) {
    const top = open.at(-1)
    if (word === '\n') line++
    else if (word === '}' || word === ']') open.pop()
    else if (word === ',' && top !== undefined) {
      if (top.keys === null) top.at = (top.at as number) + 1
      else top.isKeyNext = true
    } else if (top?.isKeyNext) {
      const key = JSON.parse(word) as string
      top.at = key
      top.isKeyNext = false
      if (top.keys?.has(key)) throw twice(name, line, pathOf(top))
      top.keys?.add(key)
      lines.set(pathOf(top), line)
    } else if (word !== ':' && word !== ',') {
      const path = top === undefined ? '' : pathOf(top)
      if (!lines.has(path)) lines.set(path, line)
      if (word === '{') open.push({ path, keys: new Set(), at: '', isKeyNext: true })
      if (word === '[') open.push({ path, keys: null, at: 0, isKeyNext: false })
    }
  }
  return lines
}

/** Returns the line of a path, or of the nearest value around it. */
export function lineOfPath(lines: ReadonlyMap<string, number>, path: string): number {
  for (let place = path; place !== ''; place = place.slice(0, Math.max(0, place.search(/(\[\d+\]|\.[^.[]*)$/)))) {
    const line = lines.get(place)
    if (line !== undefined) return line
  }
  return 1
}

function pathOf({ path, at }: Open): string {
  if (typeof at === 'number') return `${path}[${at}]`
  return path === '' ? at : `${path}.${at}`
}

function twice(name: string, line: number, path: string): Refusal {
  return new Refusal('invalid', 'broken_config', `"${name}", line ${line}: "${path}" is given twice`)
}
