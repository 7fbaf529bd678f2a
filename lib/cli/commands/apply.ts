import { open } from 'node:fs/promises'
import { resolve } from 'node:path'
import { hasCode, Refusal } from '../../base/errors.js'
import { applyBundle } from '../bundle/apply.js'
import { mayBeBundle } from '../bundle/volumes.js'
import { defineCommand, type Family, option, toggle, usage } from '../command.js'
import { adminDetails, adminOptions, serverFileName, sharedOptions } from '../common-options.js'
import { receiptOption } from '../push-options.js'
import { variables } from '../pack/push-fields.js'

/** The command that applies a file: that of a server, or a bundle. */
export const commands = {
  apply: defineCommand({
    operands: { file: { help: `file of the server, or a bundle; default: ${serverFileName}` } },
    options: {
      'dry-run': toggle('show what would change, and change nothing'),
      prune: toggle(
        'delete or reset what the file does not name, in the parts that it has; of a bundle: as "svc push --prune"'
      ),
      secrets: toggle('also set secrets that cannot be compared, because the server hides them'),
      project: { ...sharedOptions.project, help: 'of a bundle: id or name of the project to deploy to' },
      'set-env': option('NAME=value', 'of a bundle: set a variable for the scripts', { repeatable: true }),
      receipt: { ...receiptOption.receipt, help: 'of a bundle: write the receipt of the deployment to this file' },
      yes: { ...sharedOptions.yes, help: 'do not ask before the changes; required without a terminal' },
      json: toggle('print the changes, or the result of the deployment, as JSON'),
      ...adminOptions
    },
    details:
      'The file has the settings, categories, tags, projects and notification targets of a server. "svc settings\n' +
      'export" writes it; docs/server-file.md describes it. What would change is shown first. A second run changes\n' +
      'nothing. If the server changes while you read, nothing is done.\n\n' +
      'What the file does not name stays as it is, unless --prune is given. A project with deployments is never\n' +
      'deleted. A secret in the file is ${NAME}, a variable of the environment, or ***, which keeps the present one.\n\n' +
      'A bundle of "svc bundle" is deployed as by "svc push", with the token of a push: the plan is shown first. On the\n' +
      'machine of the server, its owner needs no token.\n\n' +
      adminDetails('admin'),
    examples: [
      ['apply --dry-run', `show what ${serverFileName} would change`],
      ['apply svc.server.json --yes', 'make the server as the file says, without being asked'],
      ['apply shop.svcb --project shop', 'show what a bundle would change, and deploy it']
    ],
    async run({ options, operands }, context) {
      const { 'dry-run': isTrial, json, prune, secrets, yes, receipt } = options
      const name = operands.file ?? serverFileName
      const path = resolve(context.cwd, name)
      if (await isBundle(path)) {
        const { env, server, token, project } = options
        if (secrets) throw usage('--secrets', '--secrets is for the file of a server: a bundle contains none')
        const given = { env, server, token, project }
        const setEnv = variables(options['set-env'])
        return await applyBundle(path, { given, setEnv, isTrial, prune, yes, json, receipt }, context)
      }
      for (const flag of ['project', 'set-env', 'receipt'] as const)
        if (options[flag]?.length) throw usage(`--${flag}`, `--${flag} is for a bundle, and "${name}" is none`)
      const { applyServerFile } = await import('./server-file.js').catch(noServerFile)
      return await applyServerFile({ name, server: options, isTrial, prune, secrets, yes, json }, context)
    }
  })
} satisfies Family

/** Whether a file is a bundle, or another zip: the file of a server is text. */
async function isBundle(path: string): Promise<boolean> {
  const file = await open(path)
  try {
    const start = Buffer.alloc(32)
    return mayBeBundle(start.subarray(0, (await file.read(start)).bytesRead))
  } finally {
    await file.close()
  }
}

/** The client package does not have that module. */
function noServerFile(error: unknown): never {
  if (!hasCode(error, 'ERR_MODULE_NOT_FOUND')) throw error
  const sentence = 'The client package applies bundles only. Install the full svc package for the file of a server'
  throw new Refusal('unsupported', 'client_only', sentence, { cause: error })
}
