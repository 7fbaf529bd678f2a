/*
 * The certificates that an agent checks its hub with. The file is read again while the agent runs, so a renewed authority needs
 * no restart. A file that cannot be used leaves the previous certificates in use.
 */
import { X509Certificate } from 'node:crypto'
import { elapsedOf, type Clock } from '../base/clock.js'
import { reasonOf } from '../base/errors.js'
import { type ExpiryWarnings, expiryOfPem } from './expiry.js'

/** Dependencies of `rereadCa`. */
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
