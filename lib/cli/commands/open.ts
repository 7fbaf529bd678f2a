import { openBrowser } from '../browser.js'
import { usage } from '../args.js'
import { defineCommand, exitCodes } from '../command.js'
import { sharedOptions } from '../common-options.js'
import { loadConfiguration, serverUrlOf } from '../session.js'

export const command = defineCommand({
  operands: {
    id: { help: 'a deployment (dep_…) or a project (proj_…); else the project of svc.config.json', complete: 'deployments' }
  },
  options: {
    browser: { type: 'switch', default: true, help: 'only print the address' },
    env: sharedOptions.env,
    server: sharedOptions.server
  },
  details:
    'The address is printed, and opened in a browser if the output is a terminal and this machine has a screen. No token is\n' +
    'sent: the panel asks for it.',
  examples: [
    ['open', "open the project's page"],
    ['open dep_abcdefghijklmnop --no-browser', 'print the address of a deployment']
  ],
  async run({ options, operands }, context) {
    const { env, server } = options
    const { config } = await loadConfiguration(context, { flags: { server }, env, project: 'optional' })
    const id = operands.id ?? config.projectId?.value
    const address = `${serverUrlOf(config, context.command).value}/${pageOf(id)}`
    context.output.print(address)
    if (!options.browser || context.host.stdout.isTTY !== true) return exitCodes.success
    if (!(await openBrowser(address, context.env))) context.output.note('No browser was found here: open the address by hand.')
    return exitCodes.success
  }
})

/** The page below the server's address; without an id the overview. */
function pageOf(id: string | undefined): string {
  if (id === undefined) return ''
  if (/^dep_\w+$/.test(id)) return `deployments/${id}`
  if (/^proj_\w+$/.test(id)) return `projects/${id}`
  throw usage(id, `"${id}" is not an id: it begins with "dep_" or "proj_"`)
}
