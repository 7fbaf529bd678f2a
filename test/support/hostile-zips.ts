/*
 * Random changes of a zip that svc would accept, as somebody else might have made them: of its JSON, of its entries, and of
 * its bytes. The same seed makes the same changes.
 */
import { makeZip, type EntryPlan } from './make-zip.js'
import type { Random } from './random.js'

const names = [
  '__proto__',
  'constructor',
  'toString',
  'id',
  'name',
  'status',
  'policy',
  'unknown',
  'd\u00e9j\u00e0',
  ''
]
const texts = [
  '',
  'x',
  '../../etc/passwd',
  '/etc/passwd',
  'a\u0000b',
  '\u202egnp.exe',
  '\ud800',
  'true',
  '9'.repeat(400)
]
const numbers = [0, -1, 0.5, 1e308, -1e308, Number.MAX_SAFE_INTEGER, 2 ** 53, 1e15]

/** Returns the text of a value that nobody expects there. */
function hostileText(random: Random): string {
  switch (random.below(9)) {
    case 0:
      return JSON.stringify(random.oneOf(texts))
    case 1:
      return String(random.oneOf(numbers))
    case 2:
      return random.oneOf(['null', 'true', 'false', '[]', '{}', '[[]]', '[null]', '1e999', '-0'])
    case 3:
      return '['.repeat(1 + random.below(5000))
    case 4:
      return `${'{"a":'.repeat(1 + random.below(3000))}1`
    case 5:
      return `{"__proto__":{"polluted":true},"constructor":{"prototype":{"polluted":true}}}`
    case 6:
      return `${'['.repeat(400)}${']'.repeat(400)}`
    case 7:
      return JSON.stringify(Object.fromEntries(random.some(20, () => [random.oneOf(names), random.oneOf(texts)])))
    default:
      return JSON.stringify(random.some(30, () => random.oneOf(numbers)))
  }
}

type Place = { of: Record<string, unknown> | unknown[]; key: string | number }

/** Returns a JSON text with a change at a random place. */
export function changedJson(text: string, random: Random): string {
  const value = JSON.parse(text) as unknown
  const places: Place[] = []
  const walk = (at: unknown): void => {
    if (typeof at !== 'object' || at === null) return
    for (const [key, each] of Object.entries(at)) {
      places.push({ of: at as Place['of'], key: Array.isArray(at) ? Number(key) : key })
      walk(each)
    }
  }
  walk(value)
  const marker = '"@hostile@"'
  const place = places[random.below(places.length)]
  if (place === undefined || random.below(12) === 0) return hostileText(random)
  const { of, key } = place
  const kind = random.below(6)
  if (kind === 0 && Array.isArray(of)) of.splice(Number(key), 1)
  else if (kind === 0) delete (of as Record<string, unknown>)[key]
  else if (kind === 1 && Array.isArray(of)) of.push(of[Number(key)])
  else if (kind === 2 && !Array.isArray(of)) of[`${random.oneOf(names)} `.trim() || 'x'] = '@hostile@'
  else (of as Record<string | number, unknown>)[key] = '@hostile@'
  const changed = JSON.stringify(value)
  if (random.below(20) === 0) return changed.slice(0, random.below(changed.length))
  return changed.replace(marker, () => hostileText(random))
}

const entryNames = (name: string, random: Random): string =>
  random.oneOf([
    `../${name}`,
    `/${name}`,
    name.toUpperCase(),
    name.replaceAll('/', '\\'),
    name.replace('/', '/../'),
    name.replace('/', '/./'),
    `${name}/`,
    name.replace(/[^/]+$/, '__proto__'),
    name.replace(/[^/]+$/, '.restored'),
    name.replace(/[^/]+$/, 'dep_aaaaaaaaaaaaaaaa.undo'),
    name.replace(/[^/]+$/, 'caf\u00e9'),
    name.replace(/[^/]+$/, 'cafe\u0301'),
    name.replace(/[^/]+$/, 'x'.repeat(300)),
    name.replace(/[^/]+$/, 'a\u0000b'),
    'svc-other/manifest.json',
    ''
  ])

/** Returns the entries with one change. */
function changedEntries(entries: readonly EntryPlan[], random: Random): EntryPlan[] {
  const changed = [...entries]
  const at = random.below(changed.length)
  const entry = changed[at] as EntryPlan
  const name = String(entry.name)
  const put = (patch: Partial<EntryPlan>): void => void (changed[at] = { ...entry, ...patch })
  switch (random.below(14)) {
    case 0:
      put({ name: entryNames(name, random) })
      break
    case 1:
      changed.push({ ...entry, name: entryNames(name, random) })
      break
    case 2:
      changed.splice(at, 1)
      break
    case 3:
      changed.push(entry)
      break
    case 4:
      put({ mode: random.oneOf([0o120777, 0o10644, 0o20644, 0o40755, 0o104755]), data: '/etc/passwd' })
      break
    case 5:
      put({ size: random.oneOf([0, 1, 2 ** 31, 0xfffffffe]) })
      break
    case 6:
      put({ crc32: random.below(2 ** 31) })
      break
    case 7:
      put({ method: 8, raw: Buffer.alloc(random.below(2000), random.below(256)) })
      break
    case 8:
      put({ flags: 1 << random.below(16) })
      break
    case 9:
      put({ headerOffset: random.below(5000) })
      break
    case 10:
      changed.push({ name: 'svc-export/again', sharesBytesOf: at })
      break
    case 11:
      put({ method: random.below(100) })
      break
    case 12:
      put({ extra: Buffer.alloc(random.below(100), random.below(256)) })
      break
    default:
      if (name.endsWith('.json')) put({ data: changedOnce(String(entry.data), random) })
  }
  return changed
}

/** What was done to a zip, and its bytes. */
export interface HostileZip {
  kind: 'json' | 'entries' | 'bytes'
  bytes: Buffer
}

/** Returns a zip of these entries with one to four changes, mostly one. `isSealed`: only what a program that seals it can change. */
export function hostileZip(given: readonly EntryPlan[], random: Random, isSealed = false): HostileZip {
  const kind = random.oneOf(isSealed ? (['json', 'entries'] as const) : (['json', 'json', 'entries', 'bytes'] as const))
  let entries = [...given]
  for (let left = random.oneOf([1, 1, 1, 2, 4]); left > 0; left--) {
    if (kind === 'json') {
      const jsons = entries.flatMap(({ name }, at) => (String(name).endsWith('.json') ? [at] : []))
      const at = random.oneOf(jsons)
      const data = changedOnce(String((entries[at] as EntryPlan).data), random)
      entries = entries.map((each, index) => (index !== at ? each : { ...(entries[at] as EntryPlan), data }))
    } else if (entries.length > 0) entries = changedEntries(entries, random)
  }
  const bytes = makeZip({ entries, ...(random.below(30) === 0 ? { claimedEntries: random.below(65_536) } : {}) })
  if (kind === 'bytes') {
    for (let left = 1 + random.below(8); left > 0; left--) bytes[random.below(bytes.length)] = random.below(256)
    return { kind, bytes: random.below(5) === 0 ? bytes.subarray(0, random.below(bytes.length)) : bytes }
  }
  return { kind, bytes }
}

/** A text that an earlier change broke stays as it is. */
function changedOnce(text: string, random: Random): string {
  try {
    JSON.parse(text)
  } catch {
    return text
  }
  return changedJson(text, random)
}
