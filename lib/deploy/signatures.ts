/*
 * Whether a release may be deployed, by who signed it. The order of the checks is fixed: signatures, keys, number of keys,
 * project, times, sequence, scripts, list of components. The tree that was signed is compared with that of the archive in staging
 * (core/install/manifest-writer.ts), before anything in the target changes.
 *
 * The policy of the project says what follows from a fault. If the server was started with --require-signatures, only the file
 * `keys/allowed_signers` of its data directory says which keys may sign, and every fault refuses: no token can change that.
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { instantOf } from '../base/clock.js'
import { sha256, sha256OfFile } from '../base/digests.js'
import { Refusal } from '../base/errors.js'
import { countOf, isBlank } from '../base/text.js'
import { seenTime } from '../core/audit/audit.js'
import { type PublicKey, readPublicKey, readSignersFile } from '../core/proof/keys.js'
import {
  badSignature,
  faultOfSbom,
  faultOfScripts,
  faultOfTimes,
  readSigned,
  type SentSignatures,
  type SignedStatement
} from '../core/proof/signers.js'
import { digestOf } from '../core/proof/statement.js'
import type { SignatureDemand } from '../model/access.js'
import type { DeploymentRow } from '../model/deployment.js'
import { policyOf, type SignaturePolicy } from '../model/policy.js'
import type { ManifestFile } from '../model/manifest.js'
import type { Reader } from '../core/store/database.js'
import type { Project } from '../model/project.js'
import {
  type Attestation,
  type SignersFile,
  type SignedBy,
  type Statement,
  type StatementClaim,
  statedScripts
} from '../model/statement.js'
import { findAttestation, firstAccepted, highestSequence, listSigningKeys } from '../core/store/tables/signing-keys.js'
import { archivedDeployments, findDeployment, placements } from '../core/store/tables/deployments.js'
import { entriesOfArchive } from '../core/archive/archive-tree.js'
import { openKept } from '../core/archive/pack-set.js'
import { readManifest } from '../core/install/manifest.js'
import { extractionLimits } from '../core/install/unpack/extract.js'
import type { WantedFrom } from './exact-state.js'
import type { DeployFiles } from './files.js'
import type { DeployNeeds } from './needs.js'
import type { OfferedScripts } from './scripts/scripts.js'

/** What is to be deployed. */
export interface Signed {
  sent: SentSignatures | null
  /**
   * `push`: it comes from a client. `promotion`: from another project, without its scripts. `again`: a kept release of the
   * project, which was accepted before. `repair`: one whose files are in place, or were.
   */
  kind: 'push' | 'promotion' | 'again' | 'repair'
  offered: OfferedScripts
  /** Names of the variables that the client sent. */
  env: readonly string[]
  /** SHA-256 of the list of components; null: there is none; absent: it was judged where it arrived. */
  sbomSha256?: string | null
}

/** Who signed a release. */
export interface Verdict {
  signedBy: SignedBy[]
  claim: StatementClaim | null
  /** The tree that was signed; null: nothing was. */
  treeSha256: string | null
  acceptedAt: string
  /** What the output says. */
  lines: string[]
}

interface Trusted {
  id: string
  name: string
  key: PublicKey
  projectIds: readonly string[] | null
  notBefore: string | null
  notAfter: string | null
  revokedAt: string | null
}

/** What applies to a project. */
interface Rule extends SignaturePolicy {
  trusted: readonly Trusted[]
  /** Whether the owner of the machine has made it. */
  isOfServer: boolean
}

export type Signatures = ReturnType<typeof createSignatures>

/** The file with the keys of a server that was started with --require-signatures. */
export const signersFile = (home: string): string => join(home, 'keys', 'allowed_signers')

type SignatureNeeds = Pick<DeployNeeds, 'store' | 'clock' | 'home' | 'requireSignatures'>

/** Creates the rules: which keys sign for a project, and what they must sign. */
function createRules({ store, clock, home, requireSignatures = false }: SignatureNeeds) {
  function ruleOf(project: Pick<Project, 'policy'>): Rule {
    const { signatures } = policyOf(project)
    if (!requireSignatures) return { ...signatures, trusted: trustedKeys(), isOfServer: false }
    return { ...signatures, require: 'refuse', keys: null, trusted: allowedSigners(), isOfServer: true }
  }

  function trustedKeys(): Trusted[] {
    return listSigningKeys(store).map(stored => ({ ...stored, key: readPublicKey(stored.public) }))
  }

  function allowedSigners(): Trusted[] {
    return readSignersFile(signersFile(home.directory)).map(({ key, name, notBefore, notAfter }) => ({
      id: key.fingerprint,
      name,
      key,
      projectIds: null,
      notBefore,
      notAfter,
      revokedAt: null
    }))
  }

  const now = (): Moment => ({ at: seenTime(store, clock), isNew: true, clockAt: instantOf(clock) })

  return {
    ruleOf,
    now,

    /** Whether the project takes only releases that are signed. */
    isRequired: (project: Pick<Project, 'policy'>): boolean => ruleOf(project).require === 'refuse',

    /** Returns a function that returns the keys that may sign for a project now, and of which the signatures are. */
    signers(): (projectId: string, sent: SentSignatures) => SignedBy[] {
      const rule = ruleOf({ policy: {} })
      const moment = now()
      return (projectId, sent) => {
        try {
          return goodKeys({ project: { id: projectId }, rule, moment, found: readAll(rule, sent) }).map(signerOfKey)
        } catch (error) {
          if (error instanceof Refusal) return []
          throw error
        }
      }
    },

    /** Refuses to put files of an import in place: nobody has signed them. */
    refuseImport(project: Project): void {
      if (ruleOf(project).require !== 'refuse') return
      const sentence = `Cannot restore files of ${project.name} from a package: it takes only signed releases. Push them, signed`
      throw new Refusal('forbidden', 'signature_missing', sentence)
    },

    /** Returns the keys of `keys/allowed_signers`; null: the server was not started with --require-signatures. */
    signersFile(): SignersFile | null {
      if (!requireSignatures) return null
      try {
        const signers = readSignersFile(signersFile(home.directory))
        const keys = signers.map(({ key: { kind, fingerprint }, ...signer }) => ({ ...signer, kind, fingerprint }))
        return { keys, problem: null }
      } catch (error) {
        if (error instanceof Refusal) return { keys: [], problem: error.message }
        throw error
      }
    },

    /** Says what the rule of a project asks for; null: nothing. */
    demand(project: Pick<Project, 'policy'>): SignatureDemand {
      const { require, threshold, sbom, isOfServer, trusted, keys } = ruleOf(project)
      const moment = now()
      const usable = trusted.filter(each => faultOfKey(each, { project: null, keys, moment }) === null)
      return { require, threshold, sbom, by: isOfServer ? 'server' : 'project', keys: usable.map(({ name }) => name) }
    }
  }
}

export function createSignatures(needs: SignatureNeeds) {
  const { store } = needs
  const { ruleOf, now, ...rules } = createRules(needs)

  function sentFor(deployId: string): Attestation | null {
    return findAttestation(store, deployId) ?? null
  }

  /** Returns as of when the keys of a release are judged: since it was accepted, if it was. */
  function momentOf(project: Pick<Project, 'id'>, { kind, sent }: Signed): Moment {
    const isKept = kind === 'again' || kind === 'repair'
    const before = isKept && sent !== null ? firstAccepted(store, project.id, sent.statement) : undefined
    return before === undefined ? now() : { at: before, isNew: false }
  }

  /** Judges a release. Refuses: 403 `signature_bad` always; if the rule says so, every other fault. */
  function judge(project: Project, signed: Signed): Verdict {
    const rule = ruleOf(project)
    const moment = momentOf(project, signed)
    const highest = mayNotGoBack(rule, signed) ? highestSequence(store, project.id) : null
    const found = readAll(rule, signed.sent)
    const fault = firstFault({ project, rule, signed, moment, highest, found })
    if (fault !== null && rule.require === 'refuse') throw fault
    // Also if it is signed, or need not be.
    const lacking = lackingComponents(rule, project, signed)
    if (lacking !== null) throw lacking
    const counts = fault === null || fault.code === 'signature_below_threshold'
    const signedBy = counts ? goodKeys({ project, rule, moment, found }).map(signerOfKey) : []
    const lines = signedBy.map(({ name, fingerprint }) => `→ signed by ${name} (${fingerprint})`)
    const tells = fault !== null && (rule.require === 'warn' || signed.sent !== null)
    return {
      signedBy,
      claim: found === null ? null : claimOf(found.statement, signed.sent as SentSignatures),
      treeSha256: found?.statement.treeSha256 ?? null,
      acceptedAt: moment.at,
      lines: tells ? [...lines, `→ warning: ${fault.message}`] : lines
    }
  }

  /** Judges a release that was deployed before. */
  function refuseKept(project: Project, deployId: string, given: Pick<Signed, 'kind' | 'offered'>): void {
    if (ruleOf(project).require === 'refuse') judge(project, { sent: sentFor(deployId), ...given, env: [] })
  }

  return {
    ...rules,
    judge,
    /** Returns the statement of a kept release; null: there is no statement. */
    sentFor,

    /** Judges a queued release again when it begins: keys may have been revoked, and rules changed. */
    judgeAgain(project: Project, row: DeploymentRow, given: Pick<Signed, 'offered' | 'env'>): Verdict {
      const isAgain = given.offered.origin === 'source deployment'
      const kind = row.triggerSource === 'promotion' ? 'promotion' : isAgain ? 'again' : 'push'
      return judge(project, { sent: sentFor(row.id), kind, ...given })
    },

    /** Judges the release of an earlier deployment that is deployed again. `sbom`: the path of its list of components, if any. */
    async judgeSource(
      project: Project,
      source: DeploymentRow,
      { sbom, ...given }: { kind: 'again' | 'promotion'; offered: OfferedScripts; sbom: string | null }
    ): Promise<{ verdict: Verdict; sent: SentSignatures | null }> {
      const sent = sentFor(source.id)
      // Another hub may have the list. Its statement says which one it is.
      const stated = source.statement?.sbomSha256 ?? null
      const isNew = given.kind === 'promotion'
      const own = isNew && { sbomSha256: sbom === null ? stated : await sha256OfFile(sbom) }
      return { sent, verdict: judge(project, { sent, ...given, env: [], ...own }) }
    },

    /**
     * Refuses to go back exactly to a release that nobody signed, or, if the policy says so, to an earlier one, and scripts of it
     * that were not signed. `to`: null: to the state before the first deployment.
     */
    refuseGoingBack(project: Project, to: DeploymentRow | null, offered: OfferedScripts): void {
      const release = to === null ? null : releaseOf(store, to)
      if (release !== null) refuseKept(project, release.id, { kind: 'again', offered })
    },

    /** Refuses to run the scripts of the live deployment again if they were not signed. */
    refuseScripts(project: Project, live: DeploymentRow, offered: OfferedScripts): void {
      if (statedScripts.every(step => isBlank(offered[step]))) return
      refuseKept(project, (releaseOf(store, live) ?? live).id, { kind: 'repair', offered })
    },

    /** Refuses to put files back that are in no release that the project takes now. What its scripts have made is theirs. */
    async refuseUnsigned(
      project: Project,
      files: Pick<DeployFiles, 'manifest'>,
      wanted: readonly WantedFrom[]
    ): Promise<void> {
      if (ruleOf(project).require !== 'refuse') return
      const ids = placements(store, project.id).map(({ id }) => id)
      const refuse = (id: string) =>
        refuseKept(project, id, { kind: 'repair', offered: { origin: 'source deployment' } })
      await refuseOtherFiles(files, wanted, { ids, refuse })
    }
  }
}

/** Returns the deployment whose release an exact change or a repair left in place; null: there was no release. */
function releaseOf(store: Reader, row: DeploymentRow): DeploymentRow | null {
  if (!row.exact) return row
  const before = row.triggerSource === 'repair' ? placementBefore(store, row) : row.rollbackOf
  if (before === null) return null
  const found = findDeployment(store, before)
  return found === undefined ? row : releaseOf(store, found)
}

/** Refuses files that are in none of the releases that `refuse` takes: of the wanted ones, and of those that were put in place. */
async function refuseOtherFiles(
  files: Pick<DeployFiles, 'manifest'>,
  wanted: readonly WantedFrom[],
  { ids, refuse }: { ids: readonly string[]; refuse(deployId: string): void }
): Promise<void> {
  const kept = wanted.flatMap(({ path, sha256, source }) =>
    source?.kind === 'archive' ? [{ path, sha256, deployId: source.deployId }] : []
  )
  const left = new Map(kept.map(({ path, sha256 }) => [path, sha256]))
  const own = kept.map(({ deployId }) => deployId)
  let refusal: Refusal | null = null
  // Mostly one deployment has them all. What a repair or a rollback has put there came with an earlier one.
  for (const id of new Set([...own, ...ids])) {
    if (left.size === 0) return
    try {
      refuse(id)
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      refusal ??= error
      continue
    }
    const manifest = files.manifest(id)
    if (!existsSync(manifest)) continue
    for await (const { path, sha256 } of readManifest(manifest)) if (left.get(path) === sha256) left.delete(path)
  }
  const [path] = left.keys()
  if (path === undefined) return
  const code = refusal?.code ?? 'signature_missing'
  const why = refusal === null ? '' : `. ${refusal.message}`
  throw denied(code, `Cannot put "${path}" back: no release that the project takes contains it${why}`)
}

type Found = SignedStatement<Trusted>

/** Returns the id of the deployment that put files in place before another one; null: none did. */
function placementBefore(store: Reader, { projectId, placed }: DeploymentRow): string | null {
  return placements(store, projectId).find(each => placed !== null && each.placed < placed)?.id ?? null
}

/** Whether an earlier release is refused: always from a client, otherwise if the policy says so. */
function mayNotGoBack(rule: Rule, { kind }: Signed): boolean {
  return kind === 'push' || (kind !== 'repair' && rule.rollbackBySignature === 'refuse')
}

/** Reads what was sent; null: nothing was. */
function readAll({ trusted }: Rule, sent: SentSignatures | null): Found | null {
  return sent === null ? null : readSigned(trusted, sent)
}

function signerOfKey({ id, name, key: { fingerprint } }: Trusted): SignedBy {
  return { key: id, name, fingerprint }
}

function claimOf(
  { sequence, notAfter, builder, sbomSha256 }: Statement,
  { statement }: SentSignatures
): StatementClaim {
  return { sha256: sha256(Buffer.from(statement)).toString('hex'), sequence, notAfter, builder, sbomSha256 }
}

/** A moment as of which keys are judged. */
interface Moment {
  at: string
  /** Whether it is now, whatever the clock says: a key that was revoked signs nothing any more. */
  isNew: boolean
  /** What the clock says now. */
  clockAt?: string
}

interface Judged {
  project: Project
  rule: Rule
  signed: Signed
  moment: Moment
  highest: number | null
  found: Found | null
}

function goodKeys({
  project,
  rule,
  moment,
  found
}: Pick<Judged, 'rule' | 'moment' | 'found'> & { project: Pick<Project, 'id'> }): Trusted[] {
  const keys = found?.keys ?? []
  return keys.filter(each => faultOfKey(each, { project: project.id, keys: rule.keys, moment }) === null)
}

interface KeyRule {
  /** Null: any. */
  project: string | null
  keys: readonly string[] | null
  moment: Moment
}

/** Returns why a key does not sign for a project at a moment, or null. */
function faultOfKey(each: Trusted, { project, keys, moment }: KeyRule): { why: string; isTime: boolean } | null {
  const { id, revokedAt, projectIds, notBefore, notAfter } = each
  if (revokedAt !== null && (moment.isNew || revokedAt <= moment.at))
    return { why: `was revoked as of ${revokedAt}`, isTime: false }
  const isOther = project !== null && projectIds !== null && !projectIds.includes(project)
  if (isOther || (keys !== null && !keys.includes(id))) return { why: 'may not sign for this project', isTime: false }
  const why = faultOfTimes({ notBefore, notAfter }, moment.at)
  return why === null ? null : { why, isTime: true }
}

function firstFault(judged: Judged): Refusal | null {
  const { found, signed } = judged
  if (found === null) return missing(judged)
  return (
    faultOfKeys(judged, found) ??
    faultOfStatement(judged, found) ??
    (signed.kind === 'push'
      ? faultOfScripts(found.statement, signed.offered, signed.env)
      : faultOfScriptsAgain(found.statement, signed)) ??
    lackingComponents(judged.rule, judged.project, signed) ??
    (signed.sbomSha256 === undefined ? null : faultOfSbom(found.statement, signed.sbomSha256))
  )
}

function missing(judged: Judged): Refusal | null {
  const { rule, project, signed } = judged
  if (rule.require === 'off') return null
  const who = rule.isOfServer ? 'This server takes' : `Project ${project.name} takes`
  const of = signed.kind === 'push' ? 'this one is not signed' : 'the kept release is not signed'
  const what = `${who} only releases that ${countOf(rule.threshold, 'trusted key')} signed, and ${of}`
  return denied('signature_missing', `${what}. Sign it with --sign-key of svc push or svc bundle`)
}

function denied(code: string, sentence: string): Refusal {
  return new Refusal('forbidden', code, sentence, { field: 'signature' })
}

function faultOfKeys(judged: Judged, { keys, strangers }: Found): Refusal | null {
  const { rule, project, moment } = judged
  const good = goodKeys(judged)
  if (good.length >= rule.threshold) return null
  const faults = keys.flatMap(each => {
    const fault = faultOfKey(each, { project: project.id, keys: rule.keys, moment })
    return fault === null ? [] : [{ ...fault, who: `the key "${each.name}" (${each.key.fingerprint})` }]
  })
  const [fault] = faults
  if (good.length === 0 && fault !== undefined) {
    const code = fault.isTime ? 'signature_expired' : 'signature_unknown_key'
    const late = fault.isTime ? clockFault(moment) : ''
    return denied(code, `Cannot accept the signature: ${fault.who} ${fault.why}. Sign with another key${late}`)
  }
  if (good.length === 0 && strangers.length > 0) {
    const list = strangers.slice(0, 3).join(', ')
    const where = rule.isOfServer ? 'keys/allowed_signers of the server' : 'svc keys trust'
    return denied('signature_unknown_key', `Cannot accept the signature: ${list} is not a trusted key (${where})`)
  }
  if (good.length === 0) return missing(judged)
  const names = good.map(({ name }) => name).join(', ')
  const what = `${countOf(good.length, 'trusted key')} signed the release (${names})`
  return denied('signature_below_threshold', `Cannot deploy: ${what}, and ${rule.threshold} must`)
}

function faultOfStatement(judged: Judged, { statement }: Found): Refusal | null {
  const { project, moment, highest } = judged
  const { projectId, alsoFor, notAfter, sequence } = statement
  if (projectId !== project.id && !alsoFor.includes(project.id)) {
    const sentence = `The release was signed for project ${projectId}, not for ${project.id}. Sign it again: svc push --sign-for ${project.id}`
    return denied('signature_other_project', sentence)
  }
  if (notAfter !== null && moment.at >= notAfter) {
    const sentence = `The statement has expired at ${notAfter}. Sign again with --sign-key of svc push or svc bundle`
    return denied('signature_expired', `${sentence}${clockFault(moment)}`)
  }
  if (highest === null || sequence >= highest) return null
  const sentence = `The release has the sequence ${sequence}, and one with ${highest} was deployed: it was signed earlier. Sign again to deploy it`
  return denied('signature_replayed', sentence)
}

/** Says that the clock was set back, if it was. */
function clockFault({ at, clockAt = at }: Moment): string {
  if (clockAt >= at) return ''
  return `. The clock of the server says ${clockAt}, but it has recorded ${at}: set the clock (docs/signatures.md)`
}

/** A kept release may have lost scripts that are not allowed any more, and variables, and has no others. */
function faultOfScriptsAgain(statement: Statement, { offered, env }: Signed): Refusal | null {
  const other = statedScripts.find(step => {
    const given = offered[step]
    return !isBlank(given) && digestOf(given as string) !== statement.scripts[step]
  })
  if (other !== undefined) return badSignature(`the script ${other} is not the one that was signed`)
  const variable = env.find(name => !statement.env.includes(name))
  return variable === undefined ? null : badSignature(`the variable ${variable} was not signed`)
}

/** Returns the refusal of a release without the list of its components, or null. */
function lackingComponents({ sbom }: Rule, project: Project, { sbomSha256 }: Signed): Refusal | null {
  if (sbom !== 'require' || sbomSha256 !== null) return null
  const sentence = `Project ${project.name} takes only releases with a list of their components. Send one: svc push --sbom`
  return new Refusal('forbidden', 'sbom_missing', sentence, { field: 'sbom' })
}

/** Returns the refusal of an archive that does not have the tree that was signed. */
export function otherThanSigned(path: string | null): Refusal {
  const where = path === null ? '' : `: "${path}" differs`
  const sentence = `Nothing was changed: the archive does not contain the files that were signed${where}. Push again, and sign again`
  return new Refusal('conflict', 'tree_differs', sentence)
}

/** Returns this refusal for a deployment. It names a path if a kept release has the tree that was signed. */
export async function otherTree(
  { store, files, settings }: Pick<DeployNeeds, 'store' | 'settings'> & { files: DeployFiles },
  { id, projectId, treeSha256 }: DeploymentRow
): Promise<Refusal> {
  try {
    const same = archivedDeployments(store, projectId).find(
      each => each.id !== id && each.treeSha256 === treeSha256 && each.placed !== null && !each.exact
    )
    if (same === undefined) return otherThanSigned(null)
    const signed = new Map<string, ManifestFile>()
    for await (const each of readManifest(files.manifest(same.id))) signed.set(each.path, each)
    const archive = await openKept(files.archive(id), extractionLimits(settings))
    try {
      for (const { path, mode, sha256 } of await entriesOfArchive(archive)) {
        const other = signed.get(path)
        if (other?.sha256 !== sha256 || other.mode !== mode) return otherThanSigned(path)
        signed.delete(path)
      }
    } finally {
      archive.close()
    }
    return otherThanSigned([...signed.keys()][0] ?? null)
  } catch (error) {
    if (error instanceof Refusal) return otherThanSigned(null)
    throw error
  }
}
