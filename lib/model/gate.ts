/*
 * The checks of a deployment: their limits, their forms, and their names. Each `…Fault` returns why a value of unknown
 * form is not usable, as the end of a sentence, or null.
 */
import { parseUrl } from '../base/text.js'
import type { Check, Gate } from './policy.js'

/** Limits of the checks. Times are in seconds. */
export const gateLimits = {
  checks: 10,
  interval: { min: 0.1, max: 60 },
  timeout: { min: 0.1, max: 60 },
  deadline: { min: 1, max: 600 },
  successes: { min: 1, max: 100 },
  stableFor: { min: 0, max: 600 },
  commandTimeout: { min: 1, max: 600 },
  logFor: { min: 1, max: 600 }
} as const

/** The values of a gate that sets only its checks. */
export const defaultGate: Omit<Gate, 'after'> = {
  interval: 1,
  timeout: 5,
  deadline: 30,
  successes: 2,
  stableFor: 0,
  onFailure: 'revert'
}

/** Limits of the time in which a deployment must be confirmed, in seconds. */
export const confirmLimits = { min: 10, max: 86_400 } as const

const maxTextLength = 2_000
const maxScriptLength = 100_000
const maxHeaders = 20
const maxPort = 65_535

/** Returns why a gate is not usable, with the name of its field, or null. */
export function gateFault(value: unknown): { field: string; reason: string } | null {
  if (!isRecord(value)) return { field: '', reason: 'it must be an object' }
  const { after, onFailure } = value
  if (!Array.isArray(after)) return { field: 'after', reason: 'it must be a list of checks' }
  if (after.length > gateLimits.checks)
    return { field: 'after', reason: `at most ${gateLimits.checks} checks are allowed` }
  for (const [index, check] of after.entries()) {
    const fault = checkFault(check)
    if (fault !== null) return { field: `after.${index}${fault.field}`, reason: fault.reason }
  }
  for (const key of ['interval', 'timeout', 'deadline', 'successes', 'stableFor'] as const) {
    const reason = numberFault(value[key], gateLimits[key])
    if (reason !== null) return { field: key, reason }
  }
  if (!Number.isInteger(value['successes'])) return { field: 'successes', reason: 'it must be a whole number' }
  if (onFailure !== 'revert' && onFailure !== 'keep')
    return { field: 'onFailure', reason: 'it must be "revert" or "keep"' }
  const unknown = Object.keys(value).find(key => key !== 'after' && !Object.hasOwn(defaultGate, key))
  return unknown === undefined ? null : { field: unknown, reason: 'there is no such key' }
}

/** Returns why the value of `confirm` in a policy is not usable, with the name of its field, or null. */
export function confirmFault(value: unknown): { field: string; reason: string } | null {
  if (!isRecord(value)) return { field: '', reason: 'it must be an object' }
  const reason = confirmSecondsFault(value['seconds'])
  if (reason !== null) return { field: 'seconds', reason }
  const unknown = Object.keys(value).find(key => key !== 'seconds')
  return unknown === undefined ? null : { field: unknown, reason: 'there is no such key' }
}

/** Returns why a number of seconds to confirm a deployment is not usable, or null. */
export function confirmSecondsFault(value: unknown): string | null {
  return Number.isInteger(value) ? numberFault(value, confirmLimits) : 'it must be a whole number of seconds'
}

type Faults = { [key: string]: (value: unknown) => string | null }

/** The forms of checks by the key that names them; a form lists its keys, and whether they are required. */
const forms: Record<string, { required: Faults; optional: Faults }> = {
  http: {
    required: { http: urlFault },
    optional: { status: statusFault, contains: text(maxTextLength), header: headerFault }
  },
  tcp: { required: { tcp: placeFault }, optional: {} },
  command: {
    required: { command: text(maxScriptLength) },
    optional: { timeout: value => numberFault(value, gateLimits.commandTimeout) }
  },
  pm2: { required: { pm2: value => (value === 'online' ? null : 'it must be "online"') }, optional: {} },
  log: {
    required: {
      log: text(100),
      none: patternFault,
      for: value => numberFault(value, gateLimits.logFor)
    },
    optional: {}
  }
}

/** Returns why a check is not usable, with the rest of the name of its field, or null. */
function checkFault(value: unknown): { field: string; reason: string } | null {
  const kinds = Object.keys(forms).join(', ')
  if (!isRecord(value)) return { field: '', reason: `it must be an object with one of: ${kinds}` }
  const kind = Object.keys(forms).find(key => Object.hasOwn(value, key))
  if (kind === undefined) return { field: '', reason: `it must have one of: ${kinds}` }
  const { required, optional } = forms[kind] as { required: Faults; optional: Faults }
  for (const [key, given] of Object.entries(value)) {
    const fault = required[key] ?? optional[key]
    if (fault === undefined) return { field: `.${key}`, reason: `a check "${kind}" has no such key` }
    const reason = fault(given)
    if (reason !== null) return { field: `.${key}`, reason }
  }
  const missing = Object.keys(required).find(key => !Object.hasOwn(value, key))
  return missing === undefined ? null : { field: `.${missing}`, reason: 'it is missing' }
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function text(max: number): (value: unknown) => string | null {
  return value => {
    if (typeof value !== 'string' || value.trim() === '') return 'it must be a text'
    if (value.includes('\0')) return 'it contains a NUL character'
    return value.length > max ? `it has more than ${max} characters` : null
  }
}

function numberFault(value: unknown, { min, max }: { min: number; max: number }): string | null {
  const isFit = typeof value === 'number' && value >= min && value <= max
  return isFit ? null : `it must be a number from ${min} to ${max}`
}

function urlFault(value: unknown): string | null {
  if (typeof value !== 'string' || value.length > maxTextLength) return 'it must be a URL'
  const url = parseUrl(value)
  if (url === null || (url.protocol !== 'http:' && url.protocol !== 'https:'))
    return 'it must be a URL like "http://127.0.0.1:3000/up"'
  return url.username === '' && url.password === '' ? null : 'it must not contain a user name or a password'
}

function placeFault(value: unknown): string | null {
  return typeof value === 'string' && parsePlace(value) !== null ? null : 'it must be like "127.0.0.1:5432"'
}

/** Parses a host and a port, like `127.0.0.1:5432` or `[::1]:5432`. Returns null if that is not possible. */
export function parsePlace(value: string): { host: string; port: number } | null {
  const [, host = '', port = ''] = /^(\[[0-9a-fA-F:.]+\]|[^\s:[\]]+):(\d{1,5})$/.exec(value) ?? []
  const number = Number(port)
  return host === '' || number < 1 || number > maxPort ? null : { host, port: number }
}

function statusFault(value: unknown): string | null {
  return typeof value === 'string' && parseStatuses(value) !== null ? null : 'it must be like "200-299,304"'
}

/** Parses a list of status codes and ranges. Returns null if that is not possible. */
export function parseStatuses(value: string): Array<{ from: number; to: number }> | null {
  const ranges = value.split(',').map(item => {
    const [, first = '', last = first] = /^\s*([1-5]\d\d)(?:-([1-5]\d\d))?\s*$/.exec(item) ?? []
    return { from: Number(first), to: Number(last) }
  })
  return ranges.every(({ from, to }) => from > 0 && from <= to) ? ranges : null
}

function headerFault(value: unknown): string | null {
  if (!isRecord(value)) return 'it must be an object of texts'
  const entries = Object.entries(value)
  if (entries.length > maxHeaders) return `at most ${maxHeaders} headers are allowed`
  const isFit = entries.every(
    ([name, each]) => /^[\w!#$%&'*+.^`|~-]+$/.test(name) && typeof each === 'string' && /^[\t\x20-\x7e]*$/.test(each)
  )
  return isFit ? null : 'it contains a header that HTTP does not allow'
}

function patternFault(value: unknown): string | null {
  const fault = text(maxTextLength)(value)
  if (fault !== null) return fault
  return isExpression(logExpression(value as string)) ? null : 'it is not a regular expression'
}

/** Returns the expression of a log check. `(?i)` at its beginning ignores the case. Only search threads run it. */
export function logExpression(value: string): { source: string; flags: string } {
  const ignoresCase = value.startsWith('(?i)')
  return { source: ignoresCase ? value.slice('(?i)'.length) : value, flags: ignoresCase ? 'iu' : 'u' }
}

/** Whether JavaScript accepts an expression. It is compiled and never runs. */
export function isExpression({ source, flags }: { source: string; flags: string }): boolean {
  try {
    new RegExp(source, flags)
    return true
  } catch {
    return false
  }
}

/** Returns the names of the checks of a gate in outputs and results. Several commands are counted: their text is a script. */
export function titlesOfChecks(checks: readonly Check[]): string[] {
  const commands = checks.filter(check => 'command' in check)
  return checks.map(check =>
    'command' in check && commands.length > 1 ? `command ${commands.indexOf(check) + 1}` : titleOfCheck(check)
  )
}

function titleOfCheck(check: Check): string {
  if ('http' in check) return check.http
  if ('tcp' in check) return `tcp ${check.tcp}`
  if ('command' in check) return 'command'
  if ('pm2' in check) return 'pm2 online'
  return `log ${check.log}`
}
