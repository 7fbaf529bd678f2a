import { countOf, oneLine } from '../../base/text.js'
import { Refusal } from '../../base/errors.js'
import { mayHaveArrived, type Api } from '../client/api.js'
import { loadConfiguration, openAdminApi, projectIdOf } from '../client/session.js'
import { defineCommand, exitCodes, type Context } from '../command.js'
import { adminDetails, checkMessage, sharedOptions } from '../common-options.js'
import { followLine, type GivenOptions } from '../hints.js'
import { confirm, Interrupted, mustAsk, withInterrupts } from '../terminal/prompt.js'
import { nothingKnown } from '../run-result.js'
import { reportRun, watchRun } from '../watch.js'

/** The command `svc repair`. */
export const command = defineCommand({
  operands: {
    projectId: { complete: 'projects', help: 'the project; default: the one in svc.config.json' }
  },
  options: {
    path: {
      type: 'text',
      value: 'path',
      repeatable: true,
      help: 'put back only this file; may be given several times'
    },
    'run-scripts': { type: 'switch', help: 'also run the scripts of the last deployment' },
    message: sharedOptions.message,
    yes: { ...sharedOptions.yes, help: 'do not ask; required without a terminal' },
    env: sharedOptions.env,
    server: sharedOptions.server,
    token: sharedOptions.adminToken,
    json: { type: 'switch', help: 'print the result as JSON; the deployment output goes to standard error' }
  },
  details:
    'Puts back the files that "svc verify" lists: those that svc put into the target and that were edited, removed or\n' +
    'given other permissions since. It is a deployment of these files from the archives on the server. Files that svc\n' +
    'did not put there stay. Edited files that it replaces are kept, and "svc undo" brings them back.\n\n' +
    adminDetails,
  examples: [
    ['repair', 'put back every file that is not as deployed'],
    ['repair proj_abcdefghijklmnop --path index.html --yes', 'put back one file, from a script']
  ],
  async run({ options, operands }, context) {
    const { env, server, token, message, json } = options
    checkMessage(message)
    const { config } = await loadConfiguration(context, {
      flags: { server, token, project: operands.projectId },
      env,
      project: operands.projectId === undefined ? 'needed' : 'optional'
    })
    if (!options.yes) mustAsk(context.host, 'A repair needs a confirmation', 'use --yes')
    const api = await openAdminApi(context, config)
    const projectId = projectIdOf(context, config)
    const what = options.path.length === 0 ? 'every file that is not as deployed' : namesOf(options.path)
    if (!options.yes && !(await confirm(context.host, `Put back ${what} of ${projectId}`))) {
      context.output.note('Nothing was repaired.')
      return exitCodes.failed
    }
    const wish = { paths: options.path, runScripts: options['run-scripts'], message }
    const given = { env, server, project: operands.projectId, token }
    try {
      return await repair(api, { projectId, wish, json, given }, context)
    } catch (error) {
      if (!(error instanceof Refusal) || error.code !== 'nothing_to_repair') throw error
      if (json) context.output.json({ status: 'nothing_to_repair', projectId })
      else context.output.print('Every file is as deployed.')
      return exitCodes.success
    }
  }
})

const maxNamed = 3

function namesOf(paths: readonly string[]): string {
  if (paths.length > maxNamed) return countOf(paths.length, 'file')
  return paths.map(path => `"${oneLine(path)}"`).join(', ')
}

interface Repair {
  projectId: string
  wish: { paths: readonly string[]; runScripts: boolean; message: string | undefined }
  json: boolean
  given: GivenOptions
}

async function repair(api: Api, { projectId, wish, json, given }: Repair, context: Context): Promise<number> {
  const { output } = context
  const watched = await withInterrupts(context.host, async signal => {
    const run = await api.repair(projectId, { ...wish, signal }).catch((error: unknown) => {
      if (error instanceof Interrupted || mayHaveArrived(error))
        output.note(
          `The server did not answer, so the repair may have begun. Run "${followLine(null, given)}" to check`
        )
      throw error
    })
    return watchRun(run, context, { api, projectId, given, print: json ? output.note : output.print, signal })
  })
  const known = { ...nothingKnown(), projectId, message: wish.message ?? null }
  return await reportRun(watched, context, { api, what: `repaired ${projectId}`, json, given, known })
}
