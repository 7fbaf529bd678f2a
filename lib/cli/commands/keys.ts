import type { Client } from '../client/client.js'
import { projectNamesOf, nearOr } from '../client/named-project.js'
import { generateKeyPairSync } from 'node:crypto'
import { readFile, rm } from 'node:fs/promises'
import { basename, resolve } from 'node:path'
import { hasCode, reasonOf, Refusal } from '../../base/errors.js'
import { writeNew } from '../../base/files.js'
import { countOf, oneLine } from '../../base/text.js'
import { publicKeyOf } from '../../core/proof/keys.js'
import type { SignersFile, SigningKey } from '../../model/statement.js'
import { openAdmin } from '../client/session.js'
import { type Context, defineCommand, exitCodes, type Family, option, toggle, usage } from '../command.js'
import { adminDetails, adminOptions, sharedOptions } from '../common-options.js'
import { projectIdsOf, projectsOption } from '../named-tokens.js'
import { confirmation } from '../terminal/prompt.js'
import { minuteOf } from '../terminal/words.js'

/** The commands for keys that sign releases. */
export const commands = {
  'keys generate': defineCommand({
    operands: { file: { required: true, help: 'new file for the private key; the public one goes to <file>.pub' } },
    details:
      'Makes an Ed25519 key that signs releases (svc push --sign-key). The file is not encrypted: only you can read it.\n' +
      'A key with a password, in an agent or in hardware is made with ssh-keygen.',
    examples: [['keys generate ~/.config/svc/release.key', 'make a key for the pipeline']],
    async run({ operands }, context) {
      const path = resolve(context.cwd, operands.file)
      const { privateKey } = generateKeyPairSync('ed25519')
      const { text, fingerprint } = publicKeyOf(privateKey)
      await create(path, privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(), 0o600)
      await create(`${path}.pub`, `${text}\n`, 0o644).catch(async (error: unknown) => {
        await rm(path, { force: true })
        throw error
      })
      context.output.print(`${path}.pub ${fingerprint}`)
      context.output.note(
        `The private key is in ${path}. Trust the public one: svc keys trust ${path}.pub --name <name>`
      )
    }
  }),

  'keys list': defineCommand({
    options: { json: toggle('print {items, file} as JSON: the keys, and those of allowed_signers'), ...adminOptions },
    details:
      'Lists the keys that may sign releases. A fingerprint is what "ssh-keygen -l" shows. Of a server that was started\n' +
      `with --require-signatures, it lists keys/allowed_signers: only these count.\n\n${adminDetails('admin')}`,
    examples: [['keys list', 'list the keys of the configured server']],
    async run({ options }, context) {
      const { output } = context
      const { client } = await openAdmin(context, options)
      const { items: keys, file = null } = await client.call('GET /api/signing-keys')
      if (options.json) return output.json({ items: keys, file })
      if (file !== null) return listFile(file, context)
      if (keys.length === 0) return output.note('No key is trusted. "svc keys trust" trusts one.')
      const names = await projectNamesOf(client)
      output.table(keys, [
        { header: 'NAME', cell: ({ name }) => name, shrinkTo: 10 },
        { header: 'KIND', cell: ({ kind }) => kind },
        { header: 'FINGERPRINT', cell: ({ fingerprint }) => fingerprint },
        {
          header: 'PROJECTS',
          cell: ({ projectIds }) => projectIds?.map(id => names.get(id) ?? id).join(', ') ?? 'all',
          shrinkTo: 10
        },
        { header: 'VALIDITY', cell: key => validityOf(key) },
        { header: 'ID', cell: ({ id }) => id }
      ])
    }
  }),

  'keys trust': defineCommand({
    fields: { public: 'file', name: '--name', projectIds: '--project', notAfter: '--until' },
    operands: {
      file: {
        required: true,
        help: 'public key of ssh-keygen, minisign or svc, or a line of allowed_signers; "-" reads it'
      }
    },
    options: {
      name: option('name', 'name of the key; default: the one in the file'),
      project: projectsOption('id or name of a project whose releases it may sign; default: all'),
      until: option('time', 'when it may sign no longer, with the zone'),
      json: toggle('print the key as JSON'),
      ...adminOptions
    },
    details: `Trusts a key: what it signs is accepted. A name that looks like that of another key is refused.\n\n${adminDetails('admin')}`,
    examples: [
      ['keys trust ~/.ssh/id_ed25519.pub --name ana@laptop', 'trust the key of a person'],
      ['keys trust ci.pub --name ci --project shop', 'trust the key of a pipeline for one project']
    ],
    async run({ options, operands }, context) {
      const text = await readPublic(operands.file, context)
      const { client } = await openAdmin(context, options)
      const { key } = await client.call('POST /api/signing-keys', {
        body: {
          public: text,
          name: options.name,
          projectIds: await projectIdsOf(client, options.project),
          notAfter: options.until ?? null
        }
      })
      if (options.json) return context.output.json(key)
      context.output.print(`Trusted ${key.name} (${key.kind}) ${key.fingerprint}`)
    }
  }),

  'keys revoke': defineCommand({
    fields: { since: '--since' },
    operands: { key: { required: true, help: 'name, fingerprint or id of the key' } },
    options: {
      since: option('time', 'when the key leaked, with the zone: what it has signed since is listed'),
      json: toggle('print {key, deployments} as JSON'),
      yes: { ...sharedOptions.yes, help: 'do not ask before revoking the key; required without a terminal' },
      ...adminOptions
    },
    details:
      'Ends a key at once. What was accepted before the time of the revocation stays valid, so that you can roll back to\n' +
      `it. Lists the deployments that the key has signed since then.\n\n${adminDetails('admin')}`,
    examples: [['keys revoke ana@laptop --since 2026-12-01T08:00:00Z --yes', 'end a key that leaked that morning']],
    async run({ options, operands }, context) {
      const isSure = confirmation(context, { yes: options.yes, what: 'Revoking a key' })
      const { client } = await openAdmin(context, options)
      const key = await findKey(client, operands.key)
      if (!(await isSure(`Revoke the key "${key.name}" (${key.fingerprint})?`))) return exitCodes.failed
      const { output } = context
      const { key: revoked, deployments } = await client.call('POST /api/signing-keys/:id/revoke', {
        id: key.id,
        body: { since: options.since ?? null }
      })
      if (options.json) {
        output.json({ key: revoked, deployments })
        return exitCodes.success
      }
      output.print(`The key "${key.name}" was revoked as of ${minuteOf(revoked.revokedAt as string)}`)
      const since = options.since === undefined ? '' : ' since then'
      output.note(`It has signed ${countOf(deployments.length, 'deployment')}${since}`)
      if (deployments.length === 0) return exitCodes.success
      output.table(deployments, [
        { header: 'DEPLOYMENT', cell: ({ id }) => id },
        { header: 'PROJECT', cell: ({ projectName }) => projectName, shrinkTo: 10 },
        { header: 'STARTED', cell: ({ startTime }) => minuteOf(startTime) },
        { header: 'STATUS', cell: ({ status }) => status }
      ])
      return exitCodes.success
    }
  })
} satisfies Family

/** Lists the keys of the file, which count alone. */
function listFile({ keys, problem }: SignersFile, { output }: Context): void {
  if (problem !== null) return output.error(`Every release is refused: ${problem}`)
  output.note('The server was started with --require-signatures: only the keys in keys/allowed_signers count.')
  if (keys.length === 0) return output.note('The file contains none, so every release is refused.')
  output.table(keys, [
    { header: 'NAME', cell: ({ name }) => name, shrinkTo: 10 },
    { header: 'KIND', cell: ({ kind }) => kind },
    { header: 'FINGERPRINT', cell: ({ fingerprint }) => fingerprint },
    { header: 'VALIDITY', cell: key => validityOf({ ...key, revokedAt: null }) }
  ])
}

async function create(path: string, text: string, mode: number): Promise<void> {
  await writeNew(path, text, mode).catch((error: unknown) => {
    if (!hasCode(error, 'EEXIST')) throw error
    throw new Refusal('usage', 'file_exists', `Cannot write "${path}": it exists already`)
  })
}

async function readPublic(file: string, { cwd, host }: Context): Promise<string> {
  if (file === '-') {
    const chunks: Buffer[] = []
    for await (const chunk of host.stdin as AsyncIterable<Buffer>) chunks.push(chunk)
    return Buffer.concat(chunks).toString()
  }
  return await readFile(resolve(cwd, file), 'utf8').catch((error: unknown) => {
    throw usage('file', `Cannot read "${basename(file)}": ${reasonOf(error)}`)
  })
}

function validityOf({
  notBefore,
  notAfter,
  revokedAt
}: Pick<SigningKey, 'notBefore' | 'notAfter' | 'revokedAt'>): string {
  if (revokedAt !== null) return `revoked as of ${minuteOf(revokedAt)}`
  const parts = [
    ...(notBefore === null ? [] : [`from ${minuteOf(notBefore)}`]),
    ...(notAfter === null ? [] : [`until ${minuteOf(notAfter)}`])
  ]
  return parts.join(' ') || 'valid'
}

async function findKey(client: Client, word: string): Promise<SigningKey> {
  const { items: keys } = await client.call('GET /api/signing-keys')
  const found = keys.find(({ id, name, fingerprint }) => [id, name, fingerprint].includes(word))
  if (found !== undefined) return found
  const names = keys.map(({ name }) => name)
  const advice = nearOr(word, names, '"svc keys list" shows names, fingerprints and ids')
  throw new Refusal('not_found', 'no_such_key', oneLine(`Key not found: "${word}". ${advice}`))
}
