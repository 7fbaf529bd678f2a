/*
 * A reader of signed checkpoints, written from the C2SP texts "signed-note" and "tlog-checkpoint". It shares no code
 * with lib/core/audit, so that both misunderstand the texts in the same way only by chance.
 */
import { createHash, createPublicKey, verify } from 'node:crypto'

/** The SubjectPublicKeyInfo of an Ed25519 key (RFC 8410) before the 32 bytes of the key. */
const spkiHead = Buffer.from('302a300506032b6570032100', 'hex')

/** Returns the size and the root if the note is signed by the key; throws otherwise. */
export function readSignedCheckpoint(note: string, verifierKey: string): { size: number; root: string } {
  const text = readSignedText(note, verifierKey)
  const lines = text.split('\n')
  if (lines.length < 4 || lines.at(-1) !== '') throw new Error('Three lines, each with a newline')
  const [origin, size, root] = lines as [string, string, string]
  if (origin === '' || lines.slice(3, -1).some(line => line === '')) throw new Error('No line is empty')
  if (String(Number(size)) !== size) throw new Error('The size is decimal, without leading zeros')
  if (Buffer.from(root, 'base64').toString('base64') !== root) throw new Error('The root is base64')
  return { size: Number(size), root }
}

/** Returns the text of a note if it is signed by the key; throws otherwise. */
export function readSignedText(note: string, verifierKey: string): string {
  const [name, id, ...encoded] = verifierKey.split('+') as [string, string, ...string[]]
  const key = Buffer.from(encoded.join('+'), 'base64')
  const expected = createHash('sha256')
    .update(Buffer.concat([Buffer.from(name), Buffer.of(0x0a), key]))
    .digest()
  if (key[0] !== 1 || expected.toString('hex', 0, 4) !== id) throw new Error('The key id is wrong')
  const split = note.lastIndexOf('\n\n')
  const text = note.slice(0, split + 1)
  const publicKey = createPublicKey({ key: Buffer.concat([spkiHead, key.subarray(1)]), format: 'der', type: 'spki' })
  for (const line of note.slice(split + 2).split('\n')) {
    if (!line.startsWith(`\u2014 ${name} `)) continue
    const signature = Buffer.from(line.slice(`\u2014 ${name} `.length), 'base64')
    if (signature.toString('hex', 0, 4) !== id) continue
    if (verify(null, Buffer.from(text), publicKey, signature.subarray(4))) return text
  }
  throw new Error('No signature of this key is valid')
}
