/* Warns before a certificate expires, while somebody can still renew it: once for each certificate, and once when it has expired. */
import { X509Certificate } from 'node:crypto'

/** A certificate that expires within this time is warned of. */
const soonMs = 14 * 24 * 3_600_000

/** A certificate, or several. */
export interface Expiring {
  /** What it is, as the first words of a sentence. */
  name: string
  /** When the first of them expires, in milliseconds since 1970. */
  expiresAtMs: number
  /** What to do, as a sentence. */
  cure: string
}

/** Returns a function that warns of a certificate which expires soon or has expired. */
export function createExpiryWarnings(
  warn: (sentence: string) => void,
  clock: { now(): number }
): (expiring: Expiring) => void {
  const warned = new Set<string>()
  return ({ name, expiresAtMs, cure }) => {
    const leftMs = expiresAtMs - clock.now()
    const state = leftMs <= 0 ? 'expired' : 'expires'
    const id = `${name} ${state} ${expiresAtMs}`
    if (!(leftMs < soonMs) || warned.has(id)) return
    warned.add(id)
    warn(`${name} ${state} on ${new Date(expiresAtMs).toISOString().slice(0, 10)}. ${cure}`)
  }
}

/** Returns when the first of the certificates in a PEM text expires, in milliseconds since 1970; infinity without one. */
export function expiryOfPem(pem: string | undefined): number {
  const blocks = pem?.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? []
  return Math.min(...blocks.map(block => Date.parse(new X509Certificate(block).validTo)))
}
