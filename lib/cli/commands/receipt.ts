import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { reasonOf, Refusal } from '../../base/errors.js'
import { replaceFile } from '../../base/files.js'
import { actorText } from '../../base/shared/api.js'
import { countOf } from '../../base/text.js'
import { badReceipt, readReceipt, type ReadReceipt } from '../../core/proof/receipt.js'
import { type ReceiptVerdict, verifyReceipts, readTrustedKey, type TrustedKey } from '../../core/proof/receipt-chain.js'
import { propertiesOf } from '../../model/receipt.js'
import { openAdmin, openProject } from '../client/session.js'
import { defineCommand, exitCodes, type Family, option, toggle, usage } from '../command.js'
import {
  adminDetails,
  adminOptions,
  deploymentOperand,
  projectDetails,
  serverOptions,
  sharedOptions,
  timeOption
} from '../common-options.js'
import { fetchReceipt, fetchReceipts, listText, readReceiptFiles, treeFaults } from '../receipt-file.js'
import { stampedName } from '../terminal/words.js'
import { projectIdFor } from '../audit-report.js'

const fileMode = 0o644

/** The commands for the receipts of deployments. */
export const commands = {
  'receipt show': defineCommand({
    operands: { deployId: deploymentOperand },
    options: {
      out: option('file', 'write the receipt itself to this file'),
      list: toggle('print the list of files of the release, whose SHA-256 is in the receipt'),
      result: toggle('print its Simple Verification Result, for programs that know that form'),
      json: toggle('print what the receipt says as JSON'),
      ...serverOptions
    },
    details:
      'A receipt says what a deployment did, and is signed by the key of the server. It is made when the deployment has\n' +
      `finished and is settled. "svc receipt verify" checks it without the server.\n\n${projectDetails('viewer')}`,
    examples: [
      ['receipt show dep_abcdefghijklmnop', 'show what the receipt of a deployment says'],
      ['receipt show dep_abcdefghijklmnop --out receipt.json', 'write the receipt to a file']
    ],
    async run({ options, operands: { deployId } }, context) {
      const { out, list, result, json } = options
      if ([out !== undefined, list, result].filter(Boolean).length > 1)
        throw usage('--list', 'Give one of --out, --list and --result')
      const { output, cwd } = context
      const { client } = await openProject(context, options)
      const text = await fetchReceipt(client, deployId, result ? 'result' : undefined)
      if (result) return output.write(text)
      const receipt = readReceipt(text)
      if (list) return output.write(listText(await client.call('GET /api/deployments/:id/files', { id: deployId })))
      if (out !== undefined) {
        await replaceFile(resolve(cwd, out), text, fileMode)
        return output.result(json, { path: resolve(cwd, out), sha256: receipt.sha256 }, out)
      }
      output.result(json, { sha256: receipt.sha256, subjects: receipt.subjects, ...receipt.receipt }, () =>
        linesOf(receipt)
      )
    }
  }),

  'receipt verify': defineCommand({
    operands: {
      files: {
        required: true,
        repeatable: true,
        help: 'receipts, files of "svc receipt export", and directories of them'
      }
    },
    options: {
      key: option(
        'key',
        'key of the server that you trust: a copy of keys/server.pub, another file with it, or its fingerprint',
        { repeatable: true }
      ),
      revoked: option(
        'fingerprint',
        'key that is not trusted any more: its receipts and the keys that it names are refused',
        { repeatable: true }
      ),
      previous: option('file', 'receipts that were kept before: the others must continue their chain', {
        repeatable: true
      }),
      tree: option('directory', 'also compare this directory with the release of the receipt'),
      list: option('file', 'with --tree: the output of "svc receipt show --list", to see the differences'),
      json: sharedOptions.json
    },
    details:
      'Without a server: the key must have signed each receipt, and each receipt must name the one before it. A missing,\n' +
      'exchanged or doubled one is named. A key that the server got later is accepted if the key that you trust names it,\n' +
      'as files of "svc receipt export" say.\n\n' +
      'The key must not come with the receipts: get it from the operator of the server, or by "svc audit export".\n' +
      'The exit code is 1 if anything is wrong. docs/proof.md shows how to check a receipt without svc.',
    examples: [
      ['receipt verify receipt.json --key server.pub', 'verify one receipt'],
      [
        'receipt verify receipts.jsonl --key SHA256:… --previous last-year.jsonl',
        'verify a chain, and that it continues'
      ],
      ['receipt verify receipt.json --key server.pub --tree /srv/shop', 'find out whether a directory is that release']
    ],
    async run({ options, operands: { files } }, { cwd, output }) {
      if (options.key.length === 0)
        throw usage('--key', '--key is missing: give the public key of the server, or its fingerprint')
      if (options.list !== undefined && options.tree === undefined) throw usage('--list', '--list needs --tree')
      const keys = await Promise.all(options.key.map(word => readKey(word, cwd)))
      const revoked = new Set((await Promise.all(options.revoked.map(word => readKey(word, cwd)))).map(nameOfKey))
      const given = await readReceiptFiles(files, cwd)
      const before = await readReceiptFiles(options.previous, cwd)
      const successors = [...given.successors, ...before.successors]
      if (given.receipts.length === 0) throw badReceipt(`${files.join(', ')} contains none`)
      const verdict = verifyReceipts(given.receipts, { keys, successors, revoked }, before.receipts)
      if (options.tree !== undefined) {
        const [only] = given.receipts
        if (only === undefined || given.receipts.length > 1)
          throw usage('--tree', '--tree needs one receipt: give only that of the release')
        const list = options.list === undefined ? null : await readFile(resolve(cwd, options.list), 'utf8')
        verdict.faults.push(...(await treeFaults(only, resolve(cwd, options.tree), list)))
      }
      const isGood = verdict.faults.length === 0
      if (options.json) output.json({ ok: isGood, receipts: given.receipts.length, ...verdict })
      else {
        if (isGood) for (const line of goodLines(given.receipts, verdict)) output.print(line)
        if (isGood && options.tree !== undefined) output.print('The directory is that release.')
        for (const note of verdict.notes) output.note(note)
        for (const fault of verdict.faults) output.error(fault)
      }
      return isGood ? exitCodes.success : exitCodes.failed
    }
  }),

  'receipt export': defineCommand({
    options: {
      out: option('file', 'file to write (default ./svc-receipts-<timestamp>.jsonl)'),
      project: option('name', 'only receipts of this project (id or name)', { complete: 'projects' }),
      since: option('time', 'only receipts since 30d, 12:04 or 2026-11-21T12:04'),
      ...adminOptions,
      json: sharedOptions.json
    },
    details:
      'The file has the receipts, a line each, and the keys of the server that followed the first one, each signed by the\n' +
      `one before. "svc receipt verify" reads it anywhere, without a server.\n\n${adminDetails('viewer')}`,
    examples: [
      ['receipt export', 'export all receipts to a file in the current directory'],
      ['receipt export --project shop --since 30d --out shop.jsonl', 'export those of a project of 30 days']
    ],
    async run({ options }, context) {
      const { project, json } = options
      const since =
        options.since === undefined
          ? undefined
          : new Date(timeOption('--since', options.since, Date.now())).toISOString()
      const path = resolve(context.cwd, options.out ?? stampedName('svc-receipts', 'jsonl'))
      const { client } = await openAdmin(context, options)
      const query = { projectId: await projectIdFor(client, project), since }
      const { text, receipts } = await fetchReceipts(client, query)
      await replaceFile(path, text, fileMode)
      context.output.note(`Exported ${countOf(receipts.length, 'receipt')}`)
      context.output.result(json, { path, receipts: receipts.length }, path)
    }
  })
} satisfies Family

/** Reads a key from a file, or takes the word as a fingerprint. */
async function readKey(word: string, cwd: string): Promise<TrustedKey> {
  if (word.startsWith('SHA256:')) return readTrustedKey(word)
  const path = resolve(cwd, word)
  const text = await readFile(path, 'utf8').catch((error: unknown) => {
    const sentence = `Cannot read the key "${path}": ${reasonOf(error)}`
    throw new Refusal('not_found', 'file_unreadable', sentence, { cause: error })
  })
  return readTrustedKey(text)
}

function nameOfKey({ fingerprint }: TrustedKey): string {
  return fingerprint
}

/** Returns what was verified. A single receipt is shown. */
function goodLines(receipts: readonly ReadReceipt[], { chains }: ReceiptVerdict): string[] {
  const [only] = receipts
  if (only !== undefined && receipts.length === 1) return ['The receipt is valid.', ...linesOf(only)]
  return chains.map(({ project, projectId, first, last, head }) => {
    return `Project "${project}" (${projectId}): the receipts ${first} to ${last} are valid and complete. The last one is ${head}`
  })
}

/** Returns what a receipt says, as lines. */
function linesOf(read: ReadReceipt): string[] {
  const { receipt, subjects, sha256 } = read
  const { server, chain, project, target, deployment, actor, origin, reverted, files, scripts, checks, nodes } = receipt
  const { approvals, signers, audit } = receipt
  const properties = propertiesOf(receipt)
  const rows: Array<[string, string | null]> = [
    ['Deployment', `${deployment.id} of project "${project.name}" (${project.id})`],
    ['Result', resultOf(receipt)],
    ['Target', target],
    ['Time', `${deployment.startedAt} to ${deployment.endedAt}`],
    ['By', actorText(actor.name, () => project.name)],
    ['Origin', originOf(origin)],
    ['Commit', origin.commit],
    ['Reverted', reverted && `${reverted.at} (${reverted.reason})`],
    [
      'Files',
      files &&
        `${files.placed} placed: ${files.added.count} added, ${files.changed.count} changed, ${files.removed.count} removed`
    ],
    ...subjects.map(({ name, digest }): [string, string] => ['Digest', `${digest.sha256} ${name}`]),
    ...scripts.items.map(({ step, sha256: of, exitCode, background }): [string, string] => {
      return ['Script', `${step} ${of.slice(0, 16)}…, exit code ${exitCode ?? (background ? 'not known yet' : 'none')}`]
    }),
    ['Checks', countedOf(checks.count, 'check')],
    ['Approved', approvals.items.map(({ decision, name }) => `${decision} by ${actorText(name)}`).join(', ') || null],
    ['Signed', signers.items.map(({ name, fingerprint }) => `${name} ${fingerprint}`).join(', ') || null],
    ['Nodes', nodes && countedOf(nodes.count, 'node')],
    ['Properties', properties.join(', ') || null],
    ['Receipt', `${chain.number}, ${sha256}${deployment.late ? ', made by a later start' : ''}`],
    ['After', chain.previous],
    ['Audit log', audit && `${countOf(audit.size, 'entry', 'entries')}, root ${audit.root}`],
    ['Server', `${server.origin}, key ${server.key}, svc ${server.version}`]
  ]
  return rows.flatMap(([name, value]) => (value === null ? [] : [`${`${name}:`.padEnd(12)}${value}`]))
}

function countedOf(count: number, noun: string): string | null {
  return count === 0 ? null : countOf(count, noun)
}

function resultOf({ deployment: { status, failedStep, placed } }: ReadReceipt['receipt']): string {
  const result = failedStep === null ? status : `${status} at the step ${failedStep}`
  return placed === null ? result : `${result}, change ${placed} of the target`
}

function originOf({ trigger, exact, rollbackOf, undoOf, promotedFrom }: ReadReceipt['receipt']['origin']): string {
  const from = promotedFrom ?? undoOf ?? rollbackOf
  return `${trigger}${exact ? ', exact' : ''}${from === null ? '' : ` of ${from}`}`
}
