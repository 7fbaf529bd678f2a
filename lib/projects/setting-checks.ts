import { itemsOf, parseUrl, unprintableIn } from '../base/text.js'
import { isAbsolute } from 'node:path'
import { Refusal } from '../base/errors.js'
import { readAuthorities } from '../http/outgoing/trust.js'
import { parseCidr } from '../http/core/headers.js'
import { eventKeys, signingSecretFault } from '../model/setting.js'
import { commitUrlHoles } from '../model/provenance.js'
import { tokenFault } from '../model/access.js'

/** Takes a trimmed value and returns it as it is stored. Refuses a wrong value with 400 and names the key. */
export type Check = (value: string, key: string) => string

/** Maximum length of a value, in characters. */
export const maxValueLength = 10_000

/** Returns the refusal of a wrong value (400 `invalid_setting`). */
export function unusable(key: string, reason: string): Refusal {
  return new Refusal('invalid', 'invalid_setting', `"${key}" cannot be set: ${reason}`, { field: key })
}

/** Accepts one line of visible characters. */
export const line: Check = (value, key) => {
  if (unprintableIn(value) !== null) throw unusable(key, 'it must be one line of visible characters')
  return value
}

/** Accepts an http or https address, or empty. */
export const httpUrl: Check = (value, key) => {
  if (value !== '' && !isHttpUrl(value)) throw unusable(key, 'an address with http:// or https:// is needed')
  return value
}

/** Accepts the address of a commit's page. Placeholders may be in its path and query, never in its host. */
export const commitPattern: Check = (value, key) => {
  if (value === '') return value
  const unknown = [...value.matchAll(/\{([^{}]*)\}/g)]
    .map(([, name]) => name as string)
    .find(name => !commitUrlHoles.some(hole => hole === name))
  if (unknown !== undefined)
    throw unusable(
      key,
      `unknown placeholder {${unknown}}, use ${commitUrlHoles.map(hole => `{${hole}}`).join(' and ')}`
    )
  const example = 'it must be an address like "https://git.example.org/{repository}/commit/{commit}"'
  const origin = /^https?:\/\/[^/?#{}@\\\s]+(?=[/?])/i.exec(value)?.[0]
  if (origin === undefined || parseUrl(origin) === null || !value.includes('{commit}')) throw unusable(key, example)
  if (/[\s<>"\\]/.test(value)) throw unusable(key, 'it must not contain spaces, quotes, "<", ">" and "\\"')
  return line(value, key)
}

function isHttpUrl(value: string): boolean {
  try {
    return /^https?:$/.test(new URL(value).protocol)
  } catch {
    return false
  }
}

/** Accepts a list of notification events. */
export const events: Check = (value, key) => {
  const unknown = itemsOf(value).find(event => !eventKeys.some(key => key === event))
  if (unknown !== undefined) throw unusable(key, `unknown event "${unknown}", use ${eventKeys.join(' or ')}`)
  return itemsOf(value).join(',')
}

/** Accepts an absolute path, or empty. */
export const absolutePath: Check = (value, key) => {
  if (value !== '' && !isAbsolute(value)) throw unusable(key, `"${value}" is not an absolute path`)
  return line(value, key)
}

/** Accepts the absolute path of a file with certificates, or empty. */
export const authorityFile: Check = (value, key) => {
  absolutePath(value, key)
  try {
    if (value !== '') readAuthorities(value)
  } catch (error) {
    throw unusable(key, (error as Error).message)
  }
  return value
}

/** Accepts an absolute path, also with `>>` before it, or empty. */
export const filePlace: Check = (value, key) => {
  const isAppended = value.startsWith('>>')
  const path = absolutePath(isAppended ? value.slice(2).trim() : value, key)
  if (isAppended && path === '') throw unusable(key, 'the path after ">>" is missing')
  return isAppended ? `>>${path}` : path
}

/** Returns a check that accepts whole numbers from `min` to `max`, both included. */
export function whole(min: number, max: number): Check {
  return (value, key) => {
    const given = /^\d{1,9}$/.test(value) ? Number(value) : Number.NaN
    if (given >= min && given <= max) return String(given)
    throw unusable(key, `"${value}" is not a whole number from ${min} to ${max}`)
  }
}

/** Returns a check that accepts whole numbers from 0 to `max`. Empty is 0. */
export function wholeOrNone(max: number): Check {
  return (value, key) => (value === '' ? '0' : whole(0, max)(value, key))
}

/** Accepts `true`, `false`, `1` and `0`. */
export const onOff: Check = (value, key) => {
  if (value === 'true' || value === '1') return 'true'
  if (value === 'false' || value === '0') return 'false'
  throw unusable(key, `"${value}" is neither true nor false`)
}

/** Accepts a token that clients send. Empty disables it. */
export const deployToken: Check = (value, key) => {
  if (value === '') return value
  const fault = tokenFault(value)
  if (fault !== null) throw unusable(key, fault)
  return value
}

/** Accepts a signing secret of Standard Webhooks, or empty. */
export const webhookSecret: Check = (value, key) => {
  const fault = signingSecretFault(value)
  if (fault !== null) throw unusable(key, fault)
  return line(value, key)
}

/** Accepts a list of host names without ports. They are stored in lower case. */
export const hostNames: Check = (value, key) => {
  const names = itemsOf(value.toLowerCase())
  const wrong = names.find(
    name => name.length > 253 || !/^[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*$/.test(name)
  )
  if (wrong !== undefined)
    throw unusable(
      key,
      `"${wrong.slice(0, 255)}" is not a host name like "deploy.example.org", without scheme and port`
    )
  return names.join(',')
}

/** Accepts a list of host names, IP addresses and CIDR blocks. */
export const hosts: Check = (value, key) => {
  const items = itemsOf(value)
  hostNames(items.filter(item => parseCidr(item) === undefined).join(','), key)
  return items.join(',').toLowerCase()
}

/** Accepts a list of IP addresses and CIDR blocks. */
export const addresses: Check = (value, key) => {
  const wrong = itemsOf(value).find(item => parseCidr(item) === undefined)
  if (wrong !== undefined) throw unusable(key, `"${wrong}" is neither an IP address nor a CIDR block`)
  return itemsOf(value).join(',')
}
