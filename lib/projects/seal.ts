/*
 * Encryption of secrets in the database: AES-256-GCM (NIST SP 800-38D) with a random nonce, as
 *
 *   v1.<id of the key>.<nonce, 12 bytes>.<tag, 16 bytes>.<ciphertext>      each of the last three in base64url
 *
 * The project and the name are additional data: a row copied to another project or name cannot be decrypted.
 */
import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto'

const version = 'v1'
const algorithm = 'aes-256-gcm'
const nonceBytes = 12
const tagBytes = 16

/** Size of a key in bytes. */
export const keyBytes = 32

/** The project and name that a sealed value belongs to. */
export interface SealedPlace {
  projectId: string
  name: string
}

/** Encrypts a value. Two results for the same value differ. */
export function seal(key: Buffer, place: SealedPlace, value: string): string {
  const nonce = randomBytes(nonceBytes)
  const cipher = createCipheriv(algorithm, key, nonce, { authTagLength: tagBytes }).setAAD(additionalData(place))
  const sealed = Buffer.concat([cipher.update(value, 'utf8'), cipher.final()])
  return [version, keyIdOf(key), ...[nonce, cipher.getAuthTag(), sealed].map(part => part.toString('base64url'))].join(
    '.'
  )
}

/** Decrypts a value. Returns null if the key or the place is wrong, or the text is damaged. */
export function unseal(key: Buffer, place: SealedPlace, text: string): string | null {
  const [found, , ...parts] = text.split('.')
  if (found !== version || parts.length !== 3) return null
  const [nonce, tag, sealed] = parts.map(part => Buffer.from(part, 'base64url')) as [Buffer, Buffer, Buffer]
  if (nonce.length !== nonceBytes || tag.length !== tagBytes) return null
  try {
    const decipher = createDecipheriv(algorithm, key, nonce, { authTagLength: tagBytes })
    decipher.setAAD(additionalData(place)).setAuthTag(tag)
    return Buffer.concat([decipher.update(sealed), decipher.final()]).toString('utf8')
  } catch {
    return null
  }
}

/** Returns the size of a sealed value in bytes, before encoding. */
export function sealedBytes(text: string): number {
  return Buffer.from(text.split('.')[4] ?? '', 'base64url').length
}

/** Returns the id of the key that sealed a value: the start of a digest, which reveals nothing about the key. */
export function keyIdOfSealed(text: string): string {
  return text.split('.')[1] ?? ''
}

/** Returns the id of a key: eight hexadecimal digits that distinguish keys. */
export function keyIdOf(key: Buffer): string {
  return createHash('sha256').update('svc variables key\0').update(key).digest('hex').slice(0, 8)
}

function additionalData({ projectId, name }: SealedPlace): Buffer {
  return Buffer.from(`svc variable\0${projectId}\0${name}`)
}
