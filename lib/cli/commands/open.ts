import { openBrowser } from '../browser.js'
import { defineCommand, exitCodes, usage } from '../command.js'
import { sharedOptions } from '../common-options.js'
import { loadConfiguration, serverUrlOf } from '../client/session.js'

/** The command `svc open`. */
export const command = defineCommand({
  operands: {
    id: {
      help: 'a deployment (dep_…) or project (proj_…); default: the project in svc.config.json',
      complete: 'deployments'
    }
  },
  options: {
    browser: { type: 'switch', default: true, help: 'print the address without opening it' },
    env: sharedOptions.env,
    server: sharedOptions.server
  },
  details:
    'Prints the address, and opens it in a browser if the output is a terminal and this machine has a display.\n' +
    'The address contains no token: the panel asks for it.',
  examples: [
    ['open', 'open the page of the project'],
    ['open dep_abcdefghijklmnop --no-browser', 'print the address of a deployment']
  ],
  async run({ options, operands }, context) {
    const { env, server } = options
    const { config } = await loadConfiguration(context, { flags: { server }, env, project: 'optional' })
    const id = operands.id ?? config.projectId?.value
    const address = `${serverUrlOf(config, context.command).value}/${pageOf(id)}`
    context.output.print(address)
    if (!options.browser || context.host.stdout.isTTY !== true) return exitCodes.success
    if (!(await openBrowser(address, context.env)))
      context.output.note('No browser was found. Open the address yourself.')
    return exitCodes.success
  }
})

/** Returns the path of the page below the address of the server. Without an id, this is the overview. */
function pageOf(id: string | undefined): string {
  if (id === undefined) return ''
  if (/^dep_\w+$/.test(id)) return `deployments/${id}`
  if (/^proj_\w+$/.test(id)) return `projects/${id}`
  throw usage(id, `"${id}" is not an id: ids begin with "dep_" or "proj_"`)
}
