import { countOf, oneLine } from '../../base/text.js'
import { defineCommand, exitCodes } from '../command.js'
import { adminDetails, adminOptions, sharedOptions } from '../common-options.js'
import { openAdmin } from '../client/session.js'
import { describeProject, findProject } from '../project-options.js'

/** The command `svc projects pm2-logs`. */
export const command = defineCommand({
  operands: {
    project: { required: true, help: 'id or name of the project', complete: 'projects' }
  },
  options: { ...adminOptions, json: sharedOptions.json },
  details: `Adds the files for standard output and standard error of each instance. Files that are log sources of the
project already are left as they are. "svc tail" prints them.\n\n${adminDetails}`,
  examples: [['projects pm2-logs shop', 'add the log files of the PM2 application of a project']],
  async run({ options, operands }, { output, ...context }) {
    const { api } = await openAdmin({ output, ...context }, options)
    const project = await findProject(api, operands.project)
    const answer = await api.addPm2Logs(project.id)
    if (options.json) output.json(answer)
    else {
      for (const { label, filePath } of answer.items) output.print(`${oneLine(label)}  ${oneLine(filePath)}`)
      output.note(`Added ${countOf(answer.items.length, 'log source')} to ${describeProject(project)}`)
    }
    return exitCodes.success
  }
})
