import { execFileSync, spawn } from 'node:child_process'
import { bareEnvironment, svcPath } from './svc.js'
import { bare } from './bare.js'

/** Waits until `see` is printed after the last step, then types `type`. */
export interface Step {
  see: string
  type: string
}

/**
 * Runs a program on a pseudo-terminal of 100 columns. Python has one in its standard library, Node does not; what it
 * writes is everything the program wrote, on both streams.
 */
const script = `
import fcntl, json, os, pty, select, struct, sys, termios
steps = json.loads(sys.argv[1])
pid, fd = pty.fork()
if pid == 0:
    os.execvp(sys.argv[2], sys.argv[2:])
fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack('HHHH', 24, 100, 0, 0))
said = b''
while True:
    try:
        chunk = os.read(fd, 65536)
    except OSError:
        break
    if not chunk:
        break
    os.write(1, chunk)
    said += chunk
    while steps and steps[0]['see'].encode() in said:
        step = steps.pop(0)
        said = said.split(step['see'].encode(), 1)[1]
        os.write(fd, step['type'].encode())
_, status = os.waitpid(pid, 0)
sys.exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status))
`

/** The interpreter itself: what the PATH has may be a script that looks for it. Null: there is none with pty. */
const python = ((): string | null => {
  try {
    const found = execFileSync('python3', ['-c', 'import pty, termios, sys; print(sys.executable)'], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore']
    })
    return found.trim()
  } catch {
    return null
  }
})()

/** Why no terminal is available here; false if one is. For the `skip` of a test. */
export const noTerminal: string | false = python === null && 'python3 with its pty module is not on this machine'

/** Runs `svc` on a terminal through these steps. */
export function svcOnTerminal(
  words: string[],
  steps: Step[],
  { cwd, env = {} }: { cwd: string; env?: Record<string, string> }
): Promise<{ code: number | null; text: string }> {
  const child = spawn(
    ...bare(python as string, ['-c', script, JSON.stringify(steps), process.execPath, svcPath, ...words]),
    {
      cwd,
      env: { TERM: 'xterm', ...bareEnvironment(cwd, env) },
      stdio: ['ignore', 'pipe', 'inherit']
    }
  )
  let text = ''
  child.stdout.setEncoding('utf8').on('data', (piece: string) => (text += piece))
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('close', code => resolve({ code, text }))
  })
}
