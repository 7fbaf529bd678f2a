import { countOf } from '../../base/count.js'
import { oneLine } from '../../base/one-line.js'
import type { DriftReport } from '../../model/plan.js'
import { loadConfiguration, openProjectApi, projectIdOf } from '../client/session.js'
import { defineCommand, exitCodes } from '../command.js'
import { projectDetails, sharedOptions } from '../common-options.js'
import { withInterrupts } from '../interrupts.js'
import { driftLines, planExitCodes } from '../plan-view.js'

/** The command `svc drift`. */
export const command = defineCommand({
  operands: {
    projectId: { complete: 'projects', help: 'the project; default: the one in svc.config.json' }
  },
  options: {
    full: { type: 'switch', help: 'read every file, even if its size and time are unchanged' },
    json: sharedOptions.json,
    'exit-code': { type: 'switch', help: 'exit with 4 if files were edited' },
    env: sharedOptions.env,
    server: sharedOptions.server,
    token: sharedOptions.token
  },
  details:
    'Lists the files that svc put into the target and that somebody has edited or removed since. Files that svc did\n' +
    `not put there are not listed. Nothing is changed.\n\n${projectDetails}`,
  examples: [
    ['drift', 'list the files that were edited on the server'],
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
    return options['exit-code'] && report.count > 0 ? planExitCodes.drift : exitCodes.success
  }
})

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
