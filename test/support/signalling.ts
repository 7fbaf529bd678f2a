import { createInterface } from 'node:readline'

/*
 * A process of another user that sends signals to the processes whose numbers it reads, one a line with the signal and
 * the time between two of them in ms, until they end. The kernel refuses them until the process has the same user.
 */
createInterface({ input: process.stdin }).on('line', line => {
  const [pid, signal, everyMs] = line.split(' ')
  const timer = setInterval(() => {
    try {
      process.kill(Number(pid), signal as NodeJS.Signals)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EPERM') clearInterval(timer)
    }
  }, Number(everyMs))
})
process.stdout.write('ready\n')
