/*
 * Reads a certificate chain and its key in PEM (RFC 7468), and checks them before a client connects. OpenSSL's
 * messages about wrong files are hard to understand, and some mistakes it does not report until a client rejects the
 * certificate.
 */

import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto'
import { readFile, stat } from 'node:fs/promises'
import { createSecureContext, type SecureContextOptions } from 'node:tls'
import { createServer, type Server, type ServerOptions } from 'node:https'
import type { Socket } from 'node:net'
import type { Clock } from '../../base/clock.js'
import { reasonOf, Refusal } from '../../base/errors.js'
import { bunVersion } from '../../base/runtime.js'
import { hangUp } from '../core/send.js'

/** Absolute paths of a certificate chain and its key. */
export interface CertificateFiles {
  cert: string
  key: string
}

/** A checked certificate. */
export interface Certificate {
  /** Certificate chain and key in PEM. */
  chain: string
  key: string
  /** The names and addresses that the certificate is valid for. */
  names: readonly string[]
  expiresAt: string
  /** Problems that are no reason to refuse the certificate. */
  warnings: readonly string[]
}

/** Returns the TLS options of a certificate: TLS 1.2 or newer, whatever Node's defaults are. */
export function contextOf({ chain, key }: Certificate): SecureContextOptions {
  return { cert: chain, key, minVersion: 'TLSv1.2' }
}

/**
 * Reads a certificate. Refuses files that cannot be read, are not PEM, or do not belong together, and a certificate
 * that is not valid at `nowMs`: 400 `invalid_certificate`.
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
    throw refuse({ field: '--tls-cert', path: files.cert }, `OpenSSL rejects it: ${(error as Error).message}`, error)
  }
  return certificate
}

type Field = '--tls-cert' | '--tls-key'

async function read(path: string, field: Field): Promise<string> {
  try {
    return await readFile(path, 'latin1')
  } catch (error) {
    throw refuse({ field, path }, reasonOf(error), error)
  }
}

const begin = '-----BEGIN CERTIFICATE-----'
const end = '-----END CERTIFICATE-----'

function blocksIn(text: string): string[] {
  const parts = text.split(end).slice(0, -1)
  return parts.filter(part => part.includes(begin)).map(part => part.slice(part.indexOf(begin)) + end)
}

function certificatesIn(text: string, path: string): X509Certificate[] {
  const blocks = blocksIn(text)
  if (blocks.length === 0) {
    if (text.includes('PRIVATE KEY-----'))
      throw refuse(
        { field: '--tls-cert', path },
        'it contains a key, not a certificate. Check that the two files are not swapped'
      )
    const isDer = text.startsWith('\x30\x82')
    throw refuse(
      { field: '--tls-cert', path },
      `it contains no certificate in PEM format${isDer ? '. Convert it with "openssl x509 -inform der"' : ''}`
    )
  }
  return blocks.map((block, at) => {
    try {
      return new X509Certificate(block)
    } catch (error) {
      throw refuse({ field: '--tls-cert', path }, `its certificate ${at + 1} of ${blocks.length} is damaged`, error)
    }
  })
}

function keyIn(text: string, path: string): KeyObject {
  const label = /-----BEGIN ((?:\w+ )?PRIVATE KEY)-----/.exec(text)?.[1]
  if (label === undefined) {
    const isCertificate = text.includes('-----BEGIN CERTIFICATE-----')
    throw refuse(
      { field: '--tls-key', path },
      isCertificate
        ? 'it contains a certificate, not a key. Check that the two files are not swapped'
        : 'it contains no private key in PEM format'
    )
  }
  if (label === 'ENCRYPTED PRIVATE KEY' || text.includes('Proc-Type: 4,ENCRYPTED')) {
    throw refuse(
      { field: '--tls-key', path },
      'it is encrypted, and svc cannot ask for the passphrase. Remove the passphrase with "openssl pkey"'
    )
  }
  try {
    return createPrivateKey(text)
  } catch (error) {
    throw refuse({ field: '--tls-key', path }, 'it is damaged', error)
  }
}

function checkPair(
  leaf: X509Certificate,
  key: KeyObject,
  { files, certificates }: { files: CertificateFiles; certificates: readonly X509Certificate[] }
): void {
  if (leaf.checkPrivateKey(key)) return
  const isLater = certificates.some(certificate => certificate.checkPrivateKey(key))
  const why = isLater
    ? `the server's own certificate must come first in "${files.cert}", the others after it`
    : `it is not the key of the certificate in "${files.cert}"`
  throw refuse({ field: '--tls-key', path: files.key }, why)
}

function checkTime(leaf: X509Certificate, path: string, nowMs: number): void {
  if (nowMs > Date.parse(leaf.validTo))
    throw refuse({ field: '--tls-cert', path }, `it expired on ${dayOf(leaf.validTo)}. Renew it`)
  if (nowMs >= Date.parse(leaf.validFrom)) return
  throw refuse(
    { field: '--tls-cert', path },
    `it is not valid before ${dayOf(leaf.validFrom)}. Check the clock of this machine`
  )
}

/** Formats a date as "2027-01-31 UTC", because OpenSSL uses an American format. */
function dayOf(time: string): string {
  return `${new Date(time).toISOString().slice(0, 10)} UTC`
}

function namesOf(leaf: X509Certificate): string[] {
  const names = [...(leaf.subjectAltName ?? '').matchAll(/(?:DNS|IP Address):([^,\s"]+)/g)].map(
    ([, name]) => name as string
  )
  const [, common] = /^CN=(.+)$/m.exec(leaf.subject) ?? []
  return names.length > 0 || common === undefined ? names : [common]
}

/** Returns a warning if other users can read the key. On Windows, modes mean nothing. */
async function looseMode(path: string): Promise<string[]> {
  if (process.platform === 'win32') return []
  const { mode } = await stat(path)
  return (mode & 0o077) === 0 ? [] : [`Other users can read the key "${path}". Run "chmod 600" on it`]
}

/**
 * Returns a warning if a certificate is not signed by the next one. Then some clients find no authority that they know.
 */
function brokenChain(certificates: readonly X509Certificate[], path: string): string[] {
  const at = certificates.findIndex((certificate, at) => {
    const issuer = certificates[at + 1]
    return issuer !== undefined && !certificate.checkIssued(issuer)
  })
  return at === -1 ? [] : [`The chain in "${path}" is broken: certificate ${at + 1} is not signed by the one after it`]
}

function refuse({ field, path }: { field: Field; path: string }, why: string, cause?: unknown): Refusal {
  const what = field === '--tls-cert' ? 'certificate' : 'key'
  return new Refusal('invalid', 'invalid_certificate', `Cannot use the ${what} "${path}": ${why}`, { field, cause })
}

/*
 * Detects a renewed certificate while the server runs. The files are checked when a client connects, at most every two
 * seconds, so an idle server does nothing. The check follows links. So a renewal by certbot (a link in live/ points to
 * another file in archive/) and one by Kubernetes (`..data` points to another directory) are detected like any other
 * change.
 *
 * The two files do not change at the same moment. So a certificate that cannot be used is reported only if it is still
 * there at the next check, and only once. Until then the previous certificate stays in use.
 */

const lookEveryMs = 2000

interface RenewalOptions {
  files: CertificateFiles
  clock: Clock
  /** Called when the files have changed and can be used. */
  onRenewed(certificate: Certificate): void
  /** Called at each look with the certificate in use. */
  onLook(certificate: Certificate): void
  /** Called when the files have changed and cannot be used. `error` says why. */
  onBroken(error: unknown): void
}

/** Opens a certificate. Refuses as `readCertificate` does. */
export async function openRenewal({ files, clock, onRenewed, onLook, onBroken }: RenewalOptions) {
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
    /** The certificate at the start. */
    certificate,

    /**
     * Resolves with a new certificate if the files have changed since the last call, otherwise with null. Never
     * rejects.
     */
    async renewed(): Promise<Certificate | null> {
      const nowMs = performance.now()
      if (nowMs - lookedAtMs < lookEveryMs) return null
      lookedAtMs = nowMs
      return look({ isAsked: false })
    },

    /** Same as `renewed`, but checks at once and reports a problem at once, because a user has asked for it. */
    look: (): Promise<Certificate | null> => look({ isAsked: true })
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

/*
 * HTTPS: node:https with the limits of the plain server, and with a certificate that is renewed while it runs.
 *
 * A connection is checked before TLS gets it. Its first byte distinguishes a TLS record (22, RFC 8446 §5.1) from the
 * first letter of a plain HTTP request, and such a client is told to use "https". Meanwhile the files of the
 * certificate are checked, so that the handshake already uses a new one.
 */

export interface SecureServerOptions {
  certificate: Certificate
  /** Called before each handshake. Resolves with a new certificate, or null if it has not changed. */
  renewed(): Promise<Certificate | null>
}

/** Creates an HTTPS server. `options` are those of the plain server. */
export function createSecureServer(options: ServerOptions, { certificate, renewed }: SecureServerOptions): Server {
  const limitMs = options.headersTimeout as number
  const server = createServer({ ...options, ...contextOf(certificate), handshakeTimeout: limitMs })
  // Bun hands out no connection before its handshake, so the following is not done there.
  if (bunVersion !== undefined) return server
  const [shakeHands] = server.listeners('connection') as [(this: Server, socket: Socket) => void]
  /** Connections whose handshake has not finished. */
  const early = new Map<string, Socket>()

  server.removeAllListeners('connection').on('connection', (socket: Socket) => {
    const key = keyOf(socket)
    early.set(key, socket)
    if (early.size > maxEarly) early.values().next().value?.destroy()
    socket.once('close', () => void (early.get(key) === socket && early.delete(key)))
    void receive(socket)
  })
  server.on('secureConnection', socket => void early.delete(keyOf(socket)))

  async function receive(socket: Socket): Promise<void> {
    // `close` reports that the client is gone. Without a listener the error would end the process.
    socket.on('error', () => {})
    const [first, next] = await Promise.all([firstByte(socket, limitMs), renewed()])
    if (next !== null) server.setSecureContext(contextOf(next))
    if (first === null || socket.destroyed) return void socket.destroy()
    if (isLetter(first)) hangUp(socket, notSecure)
    else shakeHands.call(server, socket)
  }

  // Clients without a finished handshake have not requested anything.
  const close = server.close
  server.close = done => {
    for (const socket of early.values()) socket.destroy()
    return close.call(server, done)
  }
  return server
}

/**
 * Maximum number of concurrent handshakes; above it the oldest is closed. Connections are counted
 * (http/core/connections.ts) after their handshake.
 */
const maxEarly = 256

const notSecure = {
  status: '400 Bad Request',
  code: 'invalid_request',
  sentence: 'Cannot read the request: this port expects TLS. Use an address that begins with https://'
}

/** Returns the first byte without consuming it, or null if none arrives. */
function firstByte(socket: Socket, limitMs: number): Promise<number | null> {
  return new Promise(resolve => {
    const give = (byte: number | null): void => {
      socket.off('readable', look).off('close', leave).off('end', leave).off('timeout', leave).setTimeout(0)
      resolve(byte)
    }
    const leave = (): void => give(null)
    const look = (): void => {
      const first = socket.read(1) as Buffer | null
      if (first === null) return
      socket.unshift(first)
      give(first[0] as number)
    }
    socket.on('readable', look).on('close', leave).on('end', leave).on('timeout', leave).setTimeout(limitMs)
  })
}

function isLetter(byte: number): boolean {
  return byte >= 0x41 && byte <= 0x5a
}

/** Returns the client's address and port, which identify a connection before and after TLS wraps it. */
function keyOf(socket: Socket): string {
  return `${socket.remoteAddress} ${socket.remotePort}`
}
