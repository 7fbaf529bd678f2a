/* Warns before a certificate expires, while somebody can still renew it: once for each certificate, and once when it has expired. */
import { X509Certificate } from 'node:crypto'
import type { ExpiringCertificate } from '../model/health.js'

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

/** The certificates of one process. */
export interface ExpiryWarnings {
  /** Takes note of a certificate in use, and warns if it expires soon or has expired. */
  look(expiring: Expiring): void
  /** Returns those in use that expire soon or have expired, for the health report. */
  list(): ExpiringCertificate[]
}

/** Creates the warnings of a process that knows no certificate yet. */
export function createExpiryWarnings(warn: (sentence: string) => void, clock: { now(): number }): ExpiryWarnings {
  const warned = new Set<string>()
  const inUse = new Map<string, Expiring>()
  const isSoon = ({ expiresAtMs }: Expiring): boolean => expiresAtMs - clock.now() < soonMs
  return {
    look(expiring) {
      const { name, expiresAtMs, cure } = expiring
      inUse.set(name, expiring)
      const state = expiresAtMs <= clock.now() ? 'expired on' : 'expires on'
      const id = `${name} ${state} ${expiresAtMs}`
      if (!isSoon(expiring) || warned.has(id)) return
      warned.add(id)
      warn(`${name} ${state} ${new Date(expiresAtMs).toISOString().slice(0, 10)}. ${cure}`)
    },
    list: () =>
      [...inUse.values()].filter(isSoon).map(({ name, expiresAtMs, cure }) => {
        return { name, expiresAt: new Date(expiresAtMs).toISOString(), cure }
      })
  }
}

/** Returns when the first of the certificates in a PEM text expires, in milliseconds since 1970; infinity without one. */
export function expiryOfPem(pem: string | undefined): number {
  const blocks = pem?.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? []
  return Math.min(...blocks.map(block => Date.parse(new X509Certificate(block).validTo)))
}
