/*
 * A certificate that is renewed while the server runs: the files are looked at when somebody connects, at most every two
 * seconds, so an idle server does nothing. What a path names is looked at, not where it is a link to: a renewal by
 * certbot (a link in live/ points to another file in archive/) and one by Kubernetes (`..data` points to another
 * directory) are changes like any other.
 *
 * The two files do not change in one moment. So what cannot be used is complained about when it is still there at the
 * next look, once; until it can be used, the certificate of before is shown.
 */
import { stat } from 'node:fs/promises'
import type { Clock } from '../base/clock.js'
import { readCertificate } from './certificate.js'
import type { Certificate, CertificateFiles } from './certificate.js'

const lookEveryMs = 2000

export interface RenewalOptions {
  files: CertificateFiles
  clock: Clock
  /** The files are other ones, and can be used. */
  onRenewed(certificate: Certificate): void
  /** The one in use has expired; said once. */
  onExpired(certificate: Certificate): void
  /** They cannot; `error` says why. */
  onBroken(error: unknown): void
}

export interface Renewal {
  /** The certificate at the start. */
  certificate: Certificate
  /** Resolves with another certificate, where the files hold one since the last time. Never rejects. */
  renewed(): Promise<Certificate | null>
  /** The same at once, and what cannot be used is complained about at once: somebody asked. */
  look(): Promise<Certificate | null>
}

/** Refuses as `readCertificate`. */
export async function openRenewal({ files, clock, onRenewed, onExpired, onBroken }: RenewalOptions): Promise<Renewal> {
  let settled = await stateOf(files)
  let suspected: string | undefined
  let lookedAtMs = -Infinity
  const certificate = await readCertificate(files, clock.now())
  let inUse = certificate
  let isExpired = false

  async function look({ isAsked }: { isAsked: boolean }): Promise<Certificate | null> {
    const state = await stateOf(files)
    if (!isExpired && clock.now() > Date.parse(inUse.expiresAt)) {
      isExpired = true
      onExpired(inUse)
    }
    if (state === settled) return null
    try {
      const next = await readCertificate(files, clock.now())
      settled = state
      inUse = next
      isExpired = false
      onRenewed(next)
      return next
    } catch (error) {
      if (isAsked || state === suspected) {
        settled = state
        onBroken(error)
      }
      suspected = state
      return null
    }
  }

  return {
    certificate,
    async renewed() {
      const nowMs = performance.now()
      if (nowMs - lookedAtMs < lookEveryMs) return null
      lookedAtMs = nowMs
      return look({ isAsked: false })
    },
    look: () => look({ isAsked: true })
  }
}

/** Changes whenever what the paths name does. */
async function stateOf({ cert, key }: CertificateFiles): Promise<string> {
  const states = await Promise.all([cert, key].map(path => stat(path).then(
    ({ dev, ino, size, mtimeMs, ctimeMs }) => [dev, ino, size, mtimeMs, ctimeMs].join(),
    (error: NodeJS.ErrnoException) => error.code
  )))
  return states.join(' ')
}
