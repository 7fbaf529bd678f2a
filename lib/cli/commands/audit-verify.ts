import { open, readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { type Checkpoint, readCheckpoint, readNote, readVerifierKey, type Verifier } from '../../audit/signed-note.js'
import { unsignedVersion } from '../../audit/entry-text.js'
import { keptFailures } from '../../audit/tree.js'
import { createExportVerifier, type Verdict, type VerifierOptions } from '../../audit/verifier.js'
import { countOf } from '../../base/text.js'
import { reasonOf, Refusal } from '../../base/errors.js'
import { auditSentence, missingSentences } from '../audit-sentence.js'
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
    'allow-trimmed': {
      type: 'switch',
      help: 'accept that old entries were removed, as the log says; their age cannot be verified'
    },
    'allow-unsigned': {
      type: 'switch',
      help: 'accept that an export of an older svc lacks entries; nothing signs which the server left out'
    },
    json: sharedOptions.json
  },
  details:
    'Without a server: the entries must give their hashes, the hashes the root of the checkpoint at the end, and the\n' +
    'key of the server must have signed it. An anchor is a checkpoint that was kept elsewhere: by a command in\n' +
    '~/.svc/witness, in a notification, or in the file of the setting checkpoint_file. Without --key and --anchor, the\n' +
    'export is only compared with itself, and the owner of the server can sign a new one.\n\n' +
    'Removed entries are printed. Nothing proves how old they were: who has the key of the server could have removed\n' +
    'them. Therefore the exit code is 1 without --allow-trimmed. It is 1, too, if anything is wrong.',
  examples: [
    ['audit verify audit.jsonl --key server.pub', 'verify an export and who signed it'],
    ['audit verify audit.jsonl --anchor ~/.svc/witness/1c2d3e4f.note', 'also verify that the past was not rewritten']
  ],
  async run({ options, operands }, { cwd, output }) {
    const key = options.key === undefined ? null : await readKey(resolve(cwd, options.key))
    const found = await Promise.all(options.anchor.map(path => readAnchors(resolve(cwd, path), key)))
    const anchors = found.flat()
    const allowsUnsigned = options['allow-unsigned']
    const given = { key, anchors, keepsFailures: keptFailures, allowsUnsigned }
    const verdict = await verify(resolve(cwd, operands.file), given)
    const faults = [...verdict.faults, ...faultsOfTrims(verdict, options['allow-trimmed'])]
    const isGood = faults.length === 0
    const missing = missingSentences(verdict)
    if (options.json) output.json({ ok: isGood, ...verdict, faults })
    else {
      if (isGood) output.print(goodSentence(verdict))
      for (const line of [...missing.removed, ...missing.omitted]) output.print(line)
      for (const fault of faults) output.error(fault)
    }
    if (verdict.version === unsignedVersion)
      output.note('An older svc wrote this export: its signature does not cover which entries were left out.')
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

/** Returns why removed entries are not accepted. */
function faultsOfTrims({ removed, removedRanges }: Verdict, isAllowed: boolean): string[] {
  if (removed === 0) return []
  if (!isAllowed)
    return [
      `${countOf(removed, 'entry was', 'entries were')} removed before, and nothing proves how old they were: give --allow-trimmed if you expect that, or compare with an earlier export`
    ]
  const unnamed = removedRanges.find(({ by }) => by === null)
  if (unnamed === undefined) return []
  return [`Entry ${unnamed.from} was removed, and no exported entry says so: verify an export up to the newest entry`]
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
