/*
 * One-time codes of an authenticator: TOTP (RFC 6238) with HMAC-SHA-1, 30 seconds and six digits, which every
 * authenticator supports.
 */
import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto'

const stepMs = 30_000
const digits = 6
/** 160 bits, the length that RFC 4226 §4 recommends. */
const secretBytes = 20
/** Steps before and after the current one whose codes are accepted, because clocks differ (RFC 6238 §5.2). */
const toleranceSteps = 1
const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'
/** 80 random bits: enough that a stored digest cannot be searched. */
const recoveryLength = 16
const recoveryCodes = 10

/** Returns a new secret in base32 (RFC 4648 §6). */
export function newSecret(): string {
  return base32(randomBytes(secretBytes))
}

/** Returns the address that an authenticator reads (Key URI Format). `account` names the token, `issuer` the server. */
export function otpauthOf({ secret, account, issuer }: { secret: string; account: string; issuer: string }): string {
  const label = `${encodeURIComponent(issuer)}:${encodeURIComponent(account)}`
  return `otpauth://totp/${label}?secret=${secret}&issuer=${encodeURIComponent(issuer)}&algorithm=SHA1&digits=6&period=30`
}

/** Returns the code of a step (RFC 4226 §5.3). */
export function codeOf(secret: string, step: number): string {
  const counter = Buffer.alloc(8)
  counter.writeBigUInt64BE(BigInt(step))
  const mac = createHmac('sha1', fromBase32(secret)).update(counter).digest()
  const offset = (mac.at(-1) as number) & 15
  const number = mac.readUInt32BE(offset) & 0x7fffffff
  return String(number % 10 ** digits).padStart(digits, '0')
}

/**
 * Returns the step whose code was given; null if it is none of the accepted ones. Steps up to `lastStep` are not
 * accepted again (RFC 6238 §5.2). Spaces in the code are ignored.
 */
export function stepOf(given: string, options: { secret: string; nowMs: number; lastStep: number }): number | null {
  const code = given.replaceAll(' ', '')
  if (!/^\d{6}$/.test(code)) return null
  const now = Math.floor(options.nowMs / stepMs)
  let found: number | null = null
  // Every candidate is compared, so that the time does not reveal which one was close.
  for (let step = now - toleranceSteps; step <= now + toleranceSteps; step++) {
    const isSame = timingSafeEqual(Buffer.from(codeOf(options.secret, step)), Buffer.from(code))
    if (isSame && step > options.lastStep) found ??= step
  }
  return found
}

/** Returns new recovery codes: `abcd-efgh-ijkl-mnop`. Each works once, instead of a code of the authenticator. */
export function newRecoveryCodes(): string[] {
  return Array.from({ length: recoveryCodes }, () => {
    const text = base32(randomBytes(recoveryLength)).slice(0, recoveryLength).toLowerCase()
    return (text.match(/.{4}/g) as string[]).join('-')
  })
}

/** Returns the digest that is stored of a recovery code. Case, spaces and hyphens do not matter. */
export function recoveryDigest(code: string): string {
  return createHash('sha256').update(code.toLowerCase().replaceAll(/[\s-]/g, '')).digest('base64url')
}

/** Encodes bytes in base32 without padding (RFC 4648 §6). */
function base32(bytes: Uint8Array): string {
  let text = ''
  let bits = 0
  let value = 0
  for (const byte of bytes) {
    value = (value << 8) | byte
    bits += 8
    for (; bits >= 5; bits -= 5) text += alphabet[(value >>> (bits - 5)) & 31]
    value &= 255
  }
  return bits === 0 ? text : text + alphabet[(value << (5 - bits)) & 31]
}

function fromBase32(text: string): Buffer {
  const bytes: number[] = []
  let bits = 0
  let value = 0
  for (const character of text.toUpperCase()) {
    value = (value << 5) | alphabet.indexOf(character)
    bits += 5
    if (bits < 8) continue
    bits -= 8
    bytes.push((value >>> bits) & 255)
    value &= (1 << bits) - 1
  }
  return Buffer.from(bytes)
}
