import { basename, resolve } from 'node:path'
import type { EffectiveConfig } from '../../base/config/precedence.js'
import type { Provenance } from '../../model/provenance.js'
import { formatBytes } from '../../base/shared/api.js'
import { countOf, oneLine } from '../../base/text.js'
import { type Bundle, digestOfTree, withBundle } from '../bundle/contents.js'
import { signaturesOf } from '../bundle/format.js'
import {
  checkFree,
  entriesOf,
  type SmallParts,
  treeText,
  writeBundle,
  type BundleSigners,
  needsOfAttached,
  partsOfAttached,
  readKeysFile,
  verifySigners
} from '../bundle/write.js'
import { minPartBytes } from '../bundle/volumes.js'
import { isProjectId } from '../client/named-project.js'
import { type Context, defineCommand, type Family, option, toggle, usage } from '../command.js'
import { checkMessage, packOptions, scriptOptions, sharedOptions } from '../common-options.js'
import { listIgnored, packConfiguration, packProject } from '../pack/pack.js'
import { collectProvenance } from '../pack/provenance.js'
import { formFields } from '../pack/push-fields.js'
import { attach, openSigning, type Signing, signOptions } from '../pack/signing.js'
import { nothingKnown } from '../run-result.js'
import { withInterrupts } from '../terminal/prompt.js'

const suffix = '.svcb'
const operand = { file: { required: true, help: `the bundle, or one of its parts` } } as const

/** The commands that pack a build, and that make, check and show a bundle. */
export const commands = {
  bundle: defineCommand({
    options: {
      env: sharedOptions.env,
      ...packOptions,
      project: { ...sharedOptions.project, help: 'id or name of the project on the server that it is carried to' },
      message: {
        ...sharedOptions.message,
        help: 'message for the deployment; default: the subject of the current git commit'
      },
      ...scriptOptions,
      ...signOptions,
      file: option('path', 'path of the bundle to write', { default: `release${suffix}` }),
      split: option('size', 'write parts that are smaller than this, like 4G or 700M'),
      provenance: toggle('leave out git commit, branch and CI run', { default: true }),
      json: toggle('print {paths, bytes, sha256, treeSha256, files} as JSON')
    },
    details:
      'A bundle carries a release to a server that this machine does not reach. It contains what "svc push" would send:\n' +
      'the archive, the scripts, the message and the origin. Of variables it contains the names only. On the other side,\n' +
      '"svc bundle verify" checks it without a server, and "svc apply" deploys it.\n\n' +
      'With --sign-key it is signed for the project that --project names by its id, and for those of --sign-for.\n' +
      'Unless it is signed, the same files, with the same times, give the same bytes, in the same time zone (TZ=UTC sets one).\n' +
      'docs/bundles.md describes the format.',
    examples: [
      [`bundle --project shop --file shop${suffix}`, 'pack the build for the project shop'],
      [`bundle --out dist --file shop${suffix} --split 4G`, 'pack a directory into parts that fit on FAT32'],
      [`bundle --project proj_ponmlkjihgfedcba --sign-key ~/.ssh/id_ed25519`, 'sign it for a project']
    ],
    async run({ options }, context) {
      const { file, message, split, json } = options
      if (options.out?.endsWith(suffix))
        throw usage('--out', `--out names the directory to pack. Write the bundle to --file ${options.out}`)
      checkMessage(message)
      const splitBytes = split === undefined ? null : partSize(split)
      const config = await packConfiguration(context, options)
      const path = resolve(context.cwd, file)
      checkFree(path)
      const signing = await openSigning(context, options, config.outputDir.value)
      checkSignable(signing, config)
      await listIgnored(context, config, options)
      const written = await withInterrupts(context.host, async signal => {
        const provenance = options.provenance ? await collectProvenance(context.cwd, context.env) : null
        const archive = await packProject(context, config, { signal })
        try {
          const entries = await entriesOf(archive, signal)
          const said = message ?? provenance?.subject ?? null
          const attached = await attachedTo({ signing, config, entries, message: said, provenance }, context)
          const about = {
            minServer: leastServer,
            needs: needsOfAttached(attached),
            project: config.projectId?.value ?? null,
            message: said,
            provenance,
            env: Object.keys(config.env).sort(),
            postDeployAsync: config.postDeployAsync.source === 'default' ? null : config.postDeployAsync.value
          }
          const source = { archive, parts: [...partsOfAttached(attached), ...scriptsOf(config)], about }
          return await writeBundle(source, { path, entries, splitBytes, signal })
        } finally {
          await archive.discard()
        }
      })
      const { paths, treeSha256, files } = written
      const parts = paths.length === 1 ? '' : ` in ${paths.length} parts`
      context.output.note(`Bundled tree ${short(treeSha256)} (${countOf(files, 'file')})${parts}`)
      context.output.result(json, written, paths.join('\n'))
    }
  }),

  'bundle verify': defineCommand({
    operands: operand,
    options: {
      keys: option('file', 'verify who signed it with these keys: allowed_signers of ssh-keygen, or a public key'),
      json: toggle(
        'print {ok, treeSha256, files, signatures, signedBy} as JSON; signedBy is null if it was not verified'
      )
    },
    details:
      'Compares every byte with the digests that the bundle contains, and the files of its archive with its tree. Needs no\n' +
      'server. A part that is missing, doubled, swapped or cut off is named.\n\n' +
      'With --keys it also verifies that one of these keys signed the tree, the scripts, the names of the variables and\n' +
      'the list of components at least, and says for which project. docs/signatures.md describes the keys.',
    examples: [
      [`bundle verify shop${suffix}`, 'check a bundle'],
      [`bundle verify shop${suffix}.001`, 'check a bundle in parts, which are in the same directory'],
      [`bundle verify shop${suffix} --keys allowed_signers`, 'verify who signed it, too']
    ],
    async run({ operands, options }, context) {
      const path = resolve(context.cwd, operands.file)
      const keys = options.keys === undefined ? null : await readKeysFile(resolve(context.cwd, options.keys))
      await withInterrupts(context.host, signal =>
        withBundle(path, async bundle => {
          await bundle.verify(signal)
          const { sha256, files } = bundle.manifest.tree
          const found = keys === null ? null : await verifySigners(bundle, keys, new Date().toISOString())
          const signatures = signaturesOf(bundle.manifest).length
          const rest = found ?? { signedBy: null }
          const answer = { ok: true, treeSha256: sha256, files, signatures, ...rest }
          const whole = `${oneLine(basename(path))} is whole: tree ${short(sha256)} (${countOf(files, 'file')})`
          const signed = found === null ? unverified(signatures) : signersLine(found)
          context.output.result(options.json, answer, `${whole}, ${signed}`)
          if (found !== null && found.strangers.length > 0)
            context.output.note(`Also signed by keys that --keys does not name: ${found.strangers.join(', ')}`)
        })
      )
    }
  }),

  'bundle show': defineCommand({
    operands: operand,
    options: { json: toggle('print what bundle.json says') },
    details: 'Shows what a bundle says about itself. "svc bundle verify" finds out whether that is true.',
    examples: [[`bundle show shop${suffix}`, 'show project, message, origin and contents of a bundle']],
    async run({ operands, options }, context) {
      const path = resolve(context.cwd, operands.file)
      await withBundle(path, async bundle => {
        context.output.result(options.json, bundle.manifest, () => linesOf(bundle))
      })
    }
  }),

  build: defineCommand({
    options: {
      env: sharedOptions.env,
      ...packOptions,
      file: option('path', 'path of the archive to write', { default: '.deploy-archive.zip' }),
      json: toggle('print {path, bytes, files, sha256} as JSON')
    },
    details: 'Writes the archive that "svc push" would upload. The built-in ignore rules include its default name.',
    examples: [
      ['build', 'pack the files that svc.config.json names into .deploy-archive.zip'],
      ['build --out dist --file /tmp/site.zip', 'pack another directory into another file']
    ],
    async run({ options }, context) {
      const config = await packConfiguration(context, options)
      await listIgnored(context, config, options)
      const path = resolve(context.cwd, options.file)
      const { bytes, files, sha256 } = await withInterrupts(context.host, signal =>
        packProject(context, config, { path, signal })
      )
      context.output.result(options.json, { path, bytes, files, sha256 }, path)
    }
  })
} satisfies Family

function unverified(signatures: number): string {
  return signatures === 0
    ? 'not signed'
    : `with ${countOf(signatures, 'signature')} that nobody has checked: give the keys (--keys)`
}

function signersLine({ signedBy, projects, notAfter }: BundleSigners): string {
  const names = signedBy.map(({ name, fingerprint }) => `${oneLine(name)} (${fingerprint})`).join(', ')
  const until = notAfter === null ? '' : `, until ${notAfter.slice(0, 10)}`
  return `signed by ${names} for ${projects.map(oneLine).join(', ')}${until}`
}

/** A statement names its project by its id: a name could be that of another project. */
function checkSignable({ signers }: Signing, { projectId }: EffectiveConfig): void {
  if (signers.length === 0 || (projectId !== null && isProjectId(projectId.value))) return
  const given = projectId === null ? 'none is given' : `"${oneLine(projectId.value)}" is a name`
  throw usage('--project', `A bundle is signed for a project, which --project names by its id, and ${given}`)
}

interface Attachable {
  signing: Signing
  config: EffectiveConfig
  entries: Awaited<ReturnType<typeof entriesOf>>
  message: string | null
  provenance: Provenance | null
}

/** Signs the release of a bundle. */
async function attachedTo({ signing, config, entries, message, provenance }: Attachable, context: Context) {
  const fields = formFields(config, nothingKnown(), { seconds: null, checkUrl: null })
  const tree = { treeSha256: digestOfTree(treeText(entries)), entries }
  const projectId = config.projectId?.value ?? ''
  return await attach(signing, { projectId, tree, fields, message, provenance }, context)
}

/** Every server takes a bundle without signatures. */
const leastServer = '1.0.0'

/** Returns the entries of the scripts. */
function scriptsOf({ preDeploy, postDeploy }: EffectiveConfig): SmallParts {
  const scripts = [
    ['scripts/pre', preDeploy?.value],
    ['scripts/post', postDeploy?.value]
  ] as const
  return scripts.flatMap(([name, text]) => (text?.trim() ? [[name, Buffer.from(text)] as const] : []))
}

const units: Readonly<Record<string, number>> = { K: 1024, M: 1024 ** 2, G: 1024 ** 3, T: 1024 ** 4 }

/** Reads the size of --split. FAT32 has no files of 4 GiB, so a part is smaller than the size. */
function partSize(text: string): number {
  const [, amount = '', unit = ''] = /^(\d{1,9})([KMGT])(?:i?B)?$/i.exec(text) ?? []
  const bytes = Number(amount) * (units[unit.toUpperCase()] ?? 0) - 1
  if (amount !== '' && bytes >= minPartBytes && Number.isSafeInteger(bytes)) return bytes
  throw usage('--split', `--split cannot be "${text}": it must be a size above 64K, like 700M or 4G`)
}

/** Returns the first and the last digits of a digest, as people compare them. */
function short(sha256: string): string {
  return `${sha256.slice(0, 4)}…${sha256.slice(-4)}`
}

function linesOf({ manifest, bytes, paths }: Bundle): string {
  const { project, message, provenance, tree, env, parts, minServer, needs, postDeployAsync } = manifest
  const names = parts.map(({ name }) => name)
  const scripts = ['pre', 'post'].filter(each => names.includes(`scripts/${each}`))
  const rows: Array<[string, string | null]> = [
    ['Project', project],
    ['Message', message],
    ['Commit', provenance?.commit ?? null],
    ['Branch', provenance?.branch ?? null],
    ['CI run', provenance?.ci?.url ?? provenance?.ci?.run ?? null],
    ['Tree', `${tree.sha256} (${countOf(tree.files, 'file')}, ${formatBytes(tree.bytes)})`],
    [
      'Scripts',
      scripts.length === 0 ? null : scripts.join(', ') + (postDeployAsync ? ' (post in the background)' : '')
    ],
    ['Variables', env.length === 0 ? null : env.join(', ')],
    ['Signatures', String(signaturesOf(manifest).length)],
    ['SBOM', names.includes('sbom.json') ? 'yes' : null],
    ['Server', `${minServer} or later${needs.length === 0 ? '' : `, with ${needs.join(', ')}`}`],
    ['Size', `${formatBytes(bytes)}${paths.length === 1 ? '' : ` in ${paths.length} parts`}`]
  ]
  const width = Math.max(...rows.map(([label]) => label.length)) + 2
  return rows
    .flatMap(([label, value]) => (value === null ? [] : [`${`${label}:`.padEnd(width)}${oneLine(value)}`]))
    .join('\n')
}
