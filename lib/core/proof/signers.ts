/*
 * Who signed a release, and whether what comes with its files is what was signed. The server asks before it deploys, and
 * `svc bundle verify` without a server.
 */
import type { Refusal } from '../../base/errors.js'
import { isBlank } from '../../base/text.js'
import { type Statement, statedScripts } from '../../model/statement.js'
import type { PublicKey } from './keys.js'
import { badSignature, isMadeBy, namesKey, readSignatures, signerOf } from './signature.js'
import { digestOf, readStatement } from './statement.js'

/** A statement and its signatures, as a client sends them. */
export interface SentSignatures {
  statement: string
  signatures: string[]
}

/** What was signed, and by whom. */
export interface SignedStatement<Key> {
  statement: Statement
  /** Trusted keys of good signatures, each once. */
  keys: Key[]
  /** Names of the others. */
  strangers: string[]
}

/** Reads a statement and verifies its signatures. Refuses (403 `signature_bad`) whatever is not as it should be. */
export function readSigned<Key extends { key: PublicKey }>(
  trusted: readonly Key[],
  sent: SentSignatures
): SignedStatement<Key> {
  const bytes = Buffer.from(sent.statement)
  const statement = readStatement(bytes)
  const keys = new Map<string, Key>()
  const strangers: string[] = []
  for (const signature of readSignatures(sent.signatures, bytes)) {
    const named = trusted.filter(({ key }) => namesKey(signature, key))
    if (named.length === 0) {
      strangers.push(signerOf(signature))
      continue
    }
    const maker = named.find(({ key }) => isMadeBy(signature, bytes, key))
    if (maker === undefined) throw badSignature(`that of ${signerOf(signature)} is not one of this statement`)
    // One key counts once, in whatever form it is trusted.
    keys.set(rawOf(maker.key), maker)
  }
  return { statement, keys: [...keys.values()], strangers }
}

const rawOf = ({ key }: PublicKey): string => key.export({ type: 'spki', format: 'der' }).toString('hex')

/** Returns why a key does not sign at a time, or null. */
export function faultOfTimes(
  { notBefore, notAfter }: { notBefore: string | null; notAfter: string | null },
  at: string
): string | null {
  if (notBefore !== null && at < notBefore) return `signs only from ${notBefore} on`
  return notAfter !== null && at >= notAfter ? `has expired at ${notAfter}` : null
}

/** The scripts that come with a release. */
export type StatedScripts = Partial<Record<(typeof statedScripts)[number], string | undefined>>

/** The scripts and the variables of a push must be exactly those that were signed. Returns the refusal, or null. */
export function faultOfScripts(statement: Statement, offered: StatedScripts, env: readonly string[]): Refusal | null {
  for (const step of statedScripts) {
    const given = offered[step]
    const digest = isBlank(given) ? undefined : digestOf(given as string)
    if (digest === statement.scripts[step]) continue
    const what = digest === undefined ? 'is missing' : 'is not the one that was signed'
    return badSignature(`the script ${step} ${what}`)
  }
  const other = env.find(name => !statement.env.includes(name))
  if (other !== undefined) return badSignature(`the variable ${other} was not signed`)
  const gone = statement.env.find(name => !env.includes(name))
  return gone === undefined ? null : badSignature(`the variable ${gone} is missing`)
}

/** Returns the refusal of another list of components than the one that was signed, or null. */
export function faultOfSbom(statement: Statement, sbomSha256: string | null): Refusal | null {
  if (statement.sbomSha256 === sbomSha256) return null
  return badSignature('the list of components is not the one that was signed')
}
