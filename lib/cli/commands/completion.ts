import { usage } from '../args.js'
import { defineCommand, exitCodes } from '../command.js'
import { renderCompletion, shells } from '../completion.js'
import { commands } from '../main.js'

export const command = defineCommand({
  operands: {
    shell: { required: true, help: shells.join(', ') }
  },
  options: {},
  details:
    'bash: put eval "$(svc completion bash)" into ~/.bashrc.\n\n' +
    'zsh: put source <(svc completion zsh) into ~/.zshrc, after compinit.\n\n' +
    'fish: svc completion fish > ~/.config/fish/completions/svc.fish\n\n' +
    'Environments, deployments and projects are offered, too: the server is asked, and nothing is offered if it does not\n' +
    'answer within two seconds.',
  examples: [['completion bash', 'print the completion script of bash']],
  async run({ operands }, { output }) {
    const shell = shells.find(name => name === operands.shell)
    if (shell === undefined) throw usage(operands.shell, `there is no completion for "${operands.shell}", only for ${shells.join(', ')}`)
    const shown = commands.filter(({ hidden }) => hidden !== true)
    const rows = await Promise.all(shown.map(async ({ name, aliases, summary, load }) => {
      return { name, aliases, summary, command: name === 'help' ? null : (await load()).command }
    }))
    await output.write(renderCompletion(shell, rows))
    return exitCodes.success
  }
})
