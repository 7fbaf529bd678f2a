/*
 * Detects a renewed certificate while the server runs. The files are checked when a client connects, at most every two
 * seconds, so an idle server does nothing. The check follows links. So a renewal by certbot (a link in live/ points to
 * another file in archive/) and one by Kubernetes (`..data` points to another directory) are detected like any other
 * change.
 *
 * The two files do not change at the same moment. So a certificate that cannot be used is reported only if it is still
 * there at the next check, and only once. Until then the previous certificate stays in use.
 */
import { stat } from 'node:fs/promises'
import type { Clock } from '../../base/clock.js'
import { readCertificate, type Certificate, type CertificateFiles } from './certificate.js'

const lookEveryMs = 2000

/** Options of `openRenewal`. */
export interface RenewalOptions {
  files: CertificateFiles
  clock: Clock
  /** Called when the files have changed and can be used. */
  onRenewed(certificate: Certificate): void
  /** Called at each look with the certificate in use. */
  onLook(certificate: Certificate): void
  /** Called when the files have changed and cannot be used. `error` says why. */
  onBroken(error: unknown): void
}

/** A certificate and its renewals. */
export interface Renewal {
  /** The certificate at the start. */
  certificate: Certificate
  /**
   * Resolves with a new certificate if the files have changed since the last call, otherwise with null. Never rejects.
   */
  renewed(): Promise<Certificate | null>
  /** Same as `renewed`, but checks at once and reports a problem at once, because a user has asked for it. */
  look(): Promise<Certificate | null>
}

/** Opens a certificate. Refuses as `readCertificate` does. */
export async function openRenewal({ files, clock, onRenewed, onLook, onBroken }: RenewalOptions): Promise<Renewal> {
  let settled = await stateOf(files)
  let suspected: string | undefined
  let lookedAtMs = -Infinity
  const certificate = await readCertificate(files, clock.now())
  let inUse = certificate

  async function look({ isAsked }: { isAsked: boolean }): Promise<Certificate | null> {
    const state = await stateOf(files)
    if (state === settled) {
      onLook(inUse)
      return null
    }
    try {
      const next = await readCertificate(files, clock.now())
      settled = state
      inUse = next
      onRenewed(next)
      onLook(next)
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

  onLook(certificate)
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

/** Returns a text that changes when the files change. */
async function stateOf({ cert, key }: CertificateFiles): Promise<string> {
  const states = await Promise.all(
    [cert, key].map(path =>
      stat(path).then(
        ({ dev, ino, size, mtimeMs, ctimeMs }) => [dev, ino, size, mtimeMs, ctimeMs].join(),
        (error: NodeJS.ErrnoException) => error.code
      )
    )
  )
  return states.join(' ')
}
