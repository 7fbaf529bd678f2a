import { open, readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { readCheckpoint } from '../../audit/checkpoint-text.js'
import type { Checkpoint } from '../../audit/checkpoint-text.js'
import { readNote, readVerifierKey } from '../../audit/signed-note.js'
import type { Verifier } from '../../audit/signed-note.js'
import { createExportVerifier } from '../../audit/verifier.js'
import type { Verdict, VerifierOptions } from '../../audit/verifier.js'
import { Refusal } from '../../base/refusal.js'
import { reasonOf } from '../../base/system-error.js'
import { auditSentence } from '../audit-sentence.js'
import { defineCommand, exitCodes } from '../command.js'
import { sharedOptions } from '../common-options.js'

const readBytes = 1024 * 1024

/** The command `svc audit verify`. */
export const command = defineCommand({
  operands: { file: { required: true, help: 'the export to verify' } },
  options: {
    anchor: {
      type: 'text',
      value: 'note',
      repeatable: true,
      help: 'file with checkpoints from elsewhere; the export must begin with their entries'
    },
    key: { type: 'text', value: 'file', help: 'file with the key of the server: a copy of keys/server.pub' },
    json: sharedOptions.json
  },
  details:
    'Without a server: the entries must give their hashes, the hashes the root of the checkpoint at the end, and the\n' +
    'key of the server must have signed it. An anchor is a checkpoint that was kept elsewhere: by a command in\n' +
    '~/.svc/witness, in a notification, or in the file of the setting checkpoint_file. Without --key and --anchor, the\n' +
    'export is only compared with itself, and the owner of the server can sign a new one.\n\n' +
    'The exit code is 1 if something is wrong.',
  examples: [
    ['audit verify audit.jsonl --key server.pub', 'verify an export and who signed it'],
    ['audit verify audit.jsonl --anchor ~/.svc/witness/1c2d3e4f.note', 'also verify that the past was not rewritten']
  ],
  async run({ options, operands }, { cwd, output }) {
    const key = options.key === undefined ? null : await readKey(resolve(cwd, options.key))
    const found = await Promise.all(options.anchor.map(path => readAnchors(resolve(cwd, path), key)))
    const anchors = found.flat()
    const verdict = await verify(resolve(cwd, operands.file), { key, anchors })
    const isGood = verdict.faults.length === 0
    if (options.json) output.json({ ok: isGood, ...verdict })
    else if (isGood) output.print(goodSentence(verdict))
    else for (const fault of verdict.faults) output.error(fault)
    if (isGood && key === null)
      output.note(
        'The key was not compared: give --key with a copy of keys/server.pub that did not come with the export.'
      )
    return isGood ? exitCodes.success : exitCodes.failed
  }
})

/** Returns that everything is right, with the anchors that prove it. */
function goodSentence(verdict: Verdict): string {
  const prefixes = verdict.anchors.map(size => `; the anchor of ${size} entries is a prefix`).join('')
  const keyId = readVerifierKey(verdict.key ?? '')?.keyId ?? ''
  return `${auditSentence(verdict)}: the root matches the checkpoint of ${verdict.size} entries, signed with the key ${keyId}${prefixes}`
}

async function verify(path: string, options: VerifierOptions): Promise<Verdict> {
  const verifier = createExportVerifier(options)
  const file = await open(path).catch((error: unknown) => {
    throw unreadable(path, error)
  })
  try {
    for (;;) {
      const { bytesRead, buffer } = await file.read({ buffer: Buffer.allocUnsafe(readBytes) })
      if (bytesRead === 0) return verifier.end()
      verifier.push(buffer.subarray(0, bytesRead))
    }
  } catch (error) {
    throw unreadable(path, error)
  } finally {
    await file.close()
  }
}

async function readKey(path: string): Promise<Verifier> {
  const key = readVerifierKey(await readText(path))
  if (key !== null) return key
  throw new Refusal('invalid', 'not_a_key', `Cannot use "${path}": it is not a key like keys/server.pub`)
}

/** Reads the notes of a file, which may contain several, and verifies their signatures if there is a key. */
async function readAnchors(path: string, key: Verifier | null): Promise<Checkpoint[]> {
  const text = await readText(path)
  // After a signature line, a line that is not one begins the next note.
  const notes = text.split(/(?<=^— .*\n)\n*(?!—)/mu).filter(part => part.trim() !== '')
  return notes.map(part => {
    const note = readNote(part)
    const checkpoint = note === null ? null : readCheckpoint(note.text)
    if (note === null || checkpoint === null) throw notAnAnchor(path, 'it is not a signed checkpoint')
    if (key !== null && !key.verifies(note)) throw notAnAnchor(path, 'the given key did not sign it')
    return checkpoint
  })
}

function notAnAnchor(path: string, why: string): Refusal {
  return new Refusal('invalid', 'not_an_anchor', `Cannot use the anchor "${path}": ${why}`)
}

async function readText(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    throw unreadable(path, error)
  }
}

function unreadable(path: string, error: unknown): unknown {
  if (error instanceof Refusal) return error
  return new Refusal('invalid', 'not_readable', `Cannot read "${path}": ${reasonOf(error)}`, { cause: error })
}
