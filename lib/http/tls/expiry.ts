/* Warns before a certificate expires, while somebody can still renew it: once for each certificate, and once when it has expired. */

import { X509Certificate } from 'node:crypto'
import type { ExpiringCertificate } from '../../model/health.js'
import { type Clock, elapsedOf } from '../../base/clock.js'
import { reasonOf } from '../../base/errors.js'

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
export type ExpiryWarnings = ReturnType<typeof createExpiryWarnings>

/** Creates the warnings of a process that knows no certificate yet. */
export function createExpiryWarnings(warn: (sentence: string) => void, clock: { now(): number }) {
  const warned = new Set<string>()
  const inUse = new Map<string, Expiring>()
  const isSoon = ({ expiresAtMs }: Expiring): boolean => expiresAtMs - clock.now() < soonMs
  return {
    /** Takes note of a certificate in use, and warns if it expires soon or has expired. */
    look(expiring: Expiring): void {
      const { name, expiresAtMs, cure } = expiring
      inUse.set(name, expiring)
      const state = expiresAtMs <= clock.now() ? 'expired on' : 'expires on'
      const id = `${name} ${state} ${expiresAtMs}`
      if (!isSoon(expiring) || warned.has(id)) return
      warned.add(id)
      warn(`${name} ${state} ${new Date(expiresAtMs).toISOString().slice(0, 10)}. ${cure}`)
    },

    /** Returns those in use that expire soon or have expired, for the health report. */
    list: (): ExpiringCertificate[] =>
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

/*
 * The certificates that an agent checks its hub with. The file is read again while the agent runs, so a renewed authority needs
 * no restart. A file that cannot be used leaves the previous certificates in use.
 */

export interface CaFileNeeds {
  /** Contents of the file at the start, in PEM. */
  first: string
  read(): Promise<string>
  report: { info(line: string): void; warn(line: string): void }
  expiry: Pick<ExpiryWarnings, 'look'>
  clock: Clock
}

const everyMs = 10_000
const name = 'The authority of the hub'

/** Returns a function that returns the certificates for the next connection. It reads the file at most every 10 s. */
export function rereadCa({ first, read, report, expiry, clock }: CaFileNeeds): () => Promise<string> {
  let inUse = first
  let readAtMs = elapsedOf(clock)
  let told = ''

  function look(): void {
    expiry.look({ name, expiresAtMs: expiryOfPem(inUse), cure: 'Renew it: the agent reads the file again' })
  }

  async function again(): Promise<void> {
    try {
      const next = await read()
      if (next !== inUse) {
        void new X509Certificate(next)
        inUse = next
        report.info('Read again: the authority of the hub')
      }
      told = ''
    } catch (error) {
      const why = reasonOf(error)
      if (why !== told) report.warn(`${name} cannot be read again, the previous one stays in use: ${why}`)
      told = why
    }
  }

  look()
  return async () => {
    const nowMs = elapsedOf(clock)
    if (nowMs - readAtMs >= everyMs) {
      readAtMs = nowMs
      await again()
      look()
    }
    return inUse
  }
}
