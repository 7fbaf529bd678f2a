/*
 * The authorities that connections of the server trust: those of Node, with NODE_EXTRA_CA_CERTS, and those of a file. The
 * file is read again when it has changed.
 */
import { X509Certificate } from 'node:crypto'
import { readFileSync, statSync } from 'node:fs'
import { createRequire } from 'node:module'
import type { SecureContext } from 'node:tls'
import { reasonOf } from '../../base/errors.js'
import { expiryOfPem } from '../tls/expiry.js'

/** Loads TLS with the first connection that needs it: 0.4 MB for nothing on a server that makes none. */
const tls = (): typeof import('node:tls') => createRequire(import.meta.url)('node:tls') as typeof import('node:tls')

export interface TrustNeeds {
  /** Returns the path of the file; empty: there is none. */
  path(): string
  /** The path of the file that Node adds to its authorities. */
  extraPath?: string | undefined
  /** Takes note of when the first certificate of the file expires, in milliseconds since 1970; infinity: there is none. */
  expiring?: ((expiresAtMs: number) => void) | undefined
}

const maxBytes = 1024 * 1024
const certificate = /-----BEGIN CERTIFICATE-----[\s\w+/=]+-----END CERTIFICATE-----/g

/**
 * Returns a function that gives the context for a TLS connection, or undefined if Node's own authorities are enough. It
 * throws an error with a sentence if the file cannot be used.
 */
export function createTrust({ path, extraPath, expiring = () => {} }: TrustNeeds): () => SecureContext | undefined {
  let known: { state: string; context: SecureContext; expiresAtMs: number } | undefined
  return () => {
    const file = path()
    if (file === '') {
      expiring(Infinity)
      return undefined
    }
    const state = stateOf(file)
    if (known?.state !== state) {
      const own = readAuthorities(file)
      const context = tls().createSecureContext({ ca: [...authoritiesOfNode(extraPath), ...own] })
      known = { state, context, expiresAtMs: expiryOfPem(own.join('\n')) }
    }
    expiring(known.expiresAtMs)
    return known.context
  }
}

/** Returns the certificates of a PEM file. Throws an error with a sentence that names the file if it contains none. */
export function readAuthorities(file: string): string[] {
  stateOf(file)
  const found = readFileSync(file, 'latin1').match(certificate) ?? []
  if (found.length === 0) throw new Error(`"${file}" contains no certificate in PEM format`)
  for (const pem of found) {
    try {
      void new X509Certificate(pem)
    } catch {
      throw new Error(`"${file}" contains a certificate that cannot be read`)
    }
  }
  return found
}

/** Returns a text that differs when the file has changed. Throws an error with a sentence if it is not a small file. */
function stateOf(file: string): string {
  try {
    const stat = statSync(file)
    if (!stat.isFile()) throw new Error('it is not a file')
    if (stat.size > maxBytes) throw new Error('it is larger than 1 MiB')
    return [file, stat.dev, stat.ino, stat.size, stat.mtimeMs, stat.ctimeMs].join(' ')
  } catch (error) {
    throw new Error(`Cannot read the certificates in "${file}": ${reasonOf(error)}`, { cause: error })
  }
}

/** Node's authorities. `ca` replaces them, and before Node 22.15 nothing returns those of NODE_EXTRA_CA_CERTS. */
function authoritiesOfNode(extraPath: string | undefined): readonly string[] {
  const { getCACertificates } = tls() as { getCACertificates?: (type: 'default') => string[] }
  if (getCACertificates !== undefined) return getCACertificates('default')
  return [...tls().rootCertificates, ...(extraPath ? extraAuthorities(extraPath) : [])]
}

/** Node ignores a wrong file, with a warning. */
function extraAuthorities(path: string): string[] {
  try {
    return readAuthorities(path)
  } catch {
    return []
  }
}
