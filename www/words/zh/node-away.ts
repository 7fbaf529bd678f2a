import type { Words } from '../t.js'

/** Texts of `pages/node-away.ts`. */
export const words: Words = {
  'Not connected': '未连接',
  'This node is not connected': '该节点未连接',
  'Its deployments, files, logs and terminal are on the node itself. They are shown as soon as it is connected again.':
    '它的部署、文件、日志和终端都在节点上，重新连接后会立即显示。',
  'Check that “svc agent” runs there, and that the machine reaches this server.':
    '请检查“svc agent”是否在那里运行，以及该机器能否连接本服务器。',
  'What this server knows about it': '本服务器所知的信息'
}
