import { resolve } from 'node:path'
import { countOf, oneLine } from '../../base/text.js'
import type { DriftReport } from '../../model/plan.js'
import { loadConfiguration, openProjectApi, projectIdOf } from '../client/session.js'
import type { Api } from '../client/api.js'
import { defineCommand, exitCodes, type Context } from '../command.js'
import { projectDetails, sharedOptions } from '../common-options.js'
import { fetchFiles } from '../fetch-files.js'
import { withInterrupts } from '../terminal/prompt.js'
import { driftLines, planExitCodes } from '../plan-view.js'

/** The command `svc drift`. */
export const command = defineCommand({
  operands: {
    projectId: { complete: 'projects', help: 'the project; default: the one in svc.config.json' }
  },
  options: {
    full: { type: 'switch', help: 'read every file, even if its size and time are unchanged' },
    fetch: { type: 'text', value: 'dir', help: 'download the edited files into this directory' },
    json: sharedOptions.json,
    'exit-code': { type: 'switch', help: 'exit with 4 if files were edited' },
    env: sharedOptions.env,
    server: sharedOptions.server,
    token: sharedOptions.token
  },
  details:
    'Lists the files that svc put into the target and that somebody has edited or removed since. Files that svc did\n' +
    'not put there are not listed. Nothing is changed on the server.\n\n' +
    '--fetch keeps the paths of the files and replaces no existing file. Links, and files that may contain secrets,\n' +
    `are not downloaded.\n\n${projectDetails}`,
  examples: [
    ['drift', 'list the files that were edited on the server'],
    ['drift --fetch edited', 'download the edited files, to take them into the build'],
    ['drift --exit-code', 'find out in a script whether there are any']
  ],
  async run({ options, operands }, context) {
    const { env, server, token, full, json } = options
    const { config } = await loadConfiguration(context, {
      flags: { server, token, project: operands.projectId },
      env,
      project: operands.projectId === undefined ? 'needed' : 'optional'
    })
    const api = await openProjectApi(context, config)
    const projectId = projectIdOf(context, config)
    const report = await withInterrupts(context.host, signal => api.drift(projectId, { full, signal }))
    if (json) context.output.json(report)
    else for (const line of linesOf(report)) context.output.print(line)
    if (report.problem !== null) return exitCodes.failed
    if (options.fetch !== undefined && !(await fetchEdited(report, { api, projectId, to: options.fetch }, context)))
      return exitCodes.failed
    return options['exit-code'] && report.count > 0 ? planExitCodes.drift : exitCodes.success
  }
})

/** Downloads the edited files. Returns whether all of them were downloaded. */
async function fetchEdited(
  { count, files }: DriftReport,
  { api, projectId, to }: { api: Api; projectId: string; to: string },
  { host, cwd, output }: Context
): Promise<boolean> {
  const paths = files.filter(({ found }) => found !== null).map(({ path }) => path)
  const directory = resolve(cwd, to)
  const left = await withInterrupts(host, signal =>
    fetchFiles({ directory, paths, open: path => api.driftFile(projectId, path, signal), signal })
  )
  for (const { path, reason } of left) output.warn(`"${oneLine(path)}" was not downloaded: ${oneLine(reason)}`)
  output.note(`${countOf(paths.length - left.length, 'file')} downloaded to ${directory}`)
  if (count > files.length) output.warn(`${count - files.length} more edited files are not listed. Fetch again later`)
  return left.length === 0 && count === files.length
}

function linesOf({ baseline, partial, problem, count, files }: DriftReport): string[] {
  if (problem !== null) return [`The target cannot be compared: ${oneLine(problem)}`]
  if (baseline === 'none') return ['svc has put no files into the target.']
  if (baseline === 'building') return ['The list of the files that svc owns is being made. Try again in a moment.']
  const lines = files.flatMap(file => driftLines({ ...file, overwritten: null }))
  const more = count - files.length
  return [
    ...lines,
    ...(more > 0 ? [`  … and ${more} more`] : []),
    count === 0 ? 'No file was edited on the server.' : `${countOf(count, 'file')} edited or removed on the server.`,
    ...(partial ? ['The comparison took too long: the list is incomplete.'] : [])
  ]
}
