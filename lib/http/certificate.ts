/*
 * A certificate chain and its key in PEM (RFC 7468), checked before anybody meets them: what OpenSSL says of a wrong
 * file nobody understands, and some mistakes it does not notice until a client is refused.
 */
import { createPrivateKey, X509Certificate } from 'node:crypto'
import type { KeyObject } from 'node:crypto'
import { readFile, stat } from 'node:fs/promises'
import { createSecureContext } from 'node:tls'
import type { SecureContextOptions } from 'node:tls'
import { Refusal } from '../base/refusal.js'

/** Absolute paths. */
export interface CertificateFiles {
  cert: string
  key: string
}

export interface Certificate {
  /** PEM. */
  chain: string
  key: string
  /** The names and addresses it is for. */
  names: readonly string[]
  expiresAt: string
  /** What is not right, and no reason to refuse it. */
  warnings: readonly string[]
}

/** TLS 1.2 or newer, whatever Node was told. */
export function contextOf({ chain, key }: Certificate): SecureContextOptions {
  return { cert: chain, key, minVersion: 'TLSv1.2' }
}

/**
 * Refuses files that cannot be read, that are no PEM, that do not belong together, and a certificate that does not count
 * at this time: 400 `invalid_certificate`.
 */
export async function readCertificate(files: CertificateFiles, nowMs: number): Promise<Certificate> {
  const text = await read(files.cert, '--tls-cert')
  const certificates = certificatesIn(text, files.cert)
  const leaf = certificates[0] as X509Certificate
  const keyText = await read(files.key, '--tls-key')
  checkPair(leaf, keyIn(keyText, files.key), { files, certificates })
  checkTime(leaf, files.cert, nowMs)
  const certificate = {
    chain: text,
    key: keyText,
    names: namesOf(leaf),
    expiresAt: new Date(leaf.validTo).toISOString(),
    warnings: [...(await looseMode(files.key)), ...brokenChain(certificates, files.cert)]
  }
  try {
    createSecureContext(contextOf(certificate))
  } catch (error) {
    throw refuse('--tls-cert', files.cert, `OpenSSL does not take it: ${(error as Error).message}`, error)
  }
  return certificate
}

type Field = '--tls-cert' | '--tls-key'

async function read(path: string, field: Field): Promise<string> {
  try {
    return await readFile(path, 'latin1')
  } catch (error) {
    const reasons: Record<string, string> = {
      ENOENT: 'there is no such file',
      ENOTDIR: 'there is no such file',
      EISDIR: 'it is a directory',
      EACCES: 'this user may not read it',
      EPERM: 'this user may not read it'
    }
    throw refuse(field, path, reasons[(error as NodeJS.ErrnoException).code ?? ''] ?? (error as Error).message, error)
  }
}

function certificatesIn(text: string, path: string): X509Certificate[] {
  const blocks = text.match(/-----BEGIN CERTIFICATE-----[^]*?-----END CERTIFICATE-----/g)
  if (blocks === null) {
    if (text.includes('PRIVATE KEY-----')) throw refuse('--tls-cert', path, 'it holds a key and no certificate; were the files exchanged?')
    const isDer = text.startsWith('\x30\x82')
    throw refuse('--tls-cert', path, `it holds no certificate in PEM${isDer ? ' ("openssl x509 -inform der" makes PEM of it)' : ''}`)
  }
  return blocks.map((block, at) => {
    try {
      return new X509Certificate(block)
    } catch (error) {
      throw refuse('--tls-cert', path, `its certificate ${at + 1} of ${blocks.length} is damaged`, error)
    }
  })
}

function keyIn(text: string, path: string): KeyObject {
  const label = /-----BEGIN ((?:\w+ )?PRIVATE KEY)-----/.exec(text)?.[1]
  if (label === undefined) {
    const isCertificate = text.includes('-----BEGIN CERTIFICATE-----')
    throw refuse('--tls-key', path, isCertificate ? 'it holds a certificate and no key; were the files exchanged?' : 'it holds no private key in PEM')
  }
  if (label === 'ENCRYPTED PRIVATE KEY' || text.includes('Proc-Type: 4,ENCRYPTED')) {
    throw refuse('--tls-key', path, 'it is encrypted, and nobody is there to give the passphrase ("openssl pkey" writes it without)')
  }
  try {
    return createPrivateKey(text)
  } catch (error) {
    throw refuse('--tls-key', path, 'it is damaged', error)
  }
}

function checkPair(
  leaf: X509Certificate, key: KeyObject, { files, certificates }: { files: CertificateFiles; certificates: readonly X509Certificate[] }
): void {
  if (leaf.checkPrivateKey(key)) return
  const isLater = certificates.some(certificate => certificate.checkPrivateKey(key))
  const why = isLater
    ? `the server's own certificate must come first in "${files.cert}", the others after it`
    : `it is not the key of the certificate in "${files.cert}"`
  throw refuse('--tls-key', files.key, why)
}

function checkTime(leaf: X509Certificate, path: string, nowMs: number): void {
  if (nowMs > Date.parse(leaf.validTo)) throw refuse('--tls-cert', path, `it expired on ${dayOf(leaf.validTo)}; renew it`)
  if (nowMs >= Date.parse(leaf.validFrom)) return
  throw refuse('--tls-cert', path, `it counts from ${dayOf(leaf.validFrom)} on only; is the clock of this machine right?`)
}

/** "2027-01-31 UTC": OpenSSL's own spelling is American. */
export function dayOf(time: string): string {
  return `${new Date(time).toISOString().slice(0, 10)} UTC`
}

function namesOf(leaf: X509Certificate): string[] {
  const names = [...(leaf.subjectAltName ?? '').matchAll(/(?:DNS|IP Address):([^,\s"]+)/g)].map(([, name]) => name as string)
  const [, common] = /^CN=(.+)$/m.exec(leaf.subject) ?? []
  return names.length > 0 || common === undefined ? names : [common]
}

/** The modes of Windows say nothing. */
async function looseMode(path: string): Promise<string[]> {
  if (process.platform === 'win32') return []
  const { mode } = await stat(path)
  return (mode & 0o077) === 0 ? [] : [`The key "${path}" can be read by others than its owner: chmod 600 it`]
}

/** Each is signed by the next one; else some clients find no way to an authority that they know. */
function brokenChain(certificates: readonly X509Certificate[], path: string): string[] {
  const at = certificates.findIndex((certificate, at) => {
    const issuer = certificates[at + 1]
    return issuer !== undefined && !certificate.checkIssued(issuer)
  })
  return at === -1 ? [] : [`The chain in "${path}" is broken: certificate ${at + 1} is not signed by the one after it`]
}

function refuse(field: Field, path: string, why: string, cause?: unknown): Refusal {
  const what = field === '--tls-cert' ? 'certificate' : 'key'
  return new Refusal('invalid', 'invalid_certificate', `The ${what} "${path}" cannot be used: ${why}`, { field, cause })
}
