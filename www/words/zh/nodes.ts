import type { Words } from '../t.js'
import { words as ofFleet } from './fleet.js'

/** Texts of `pages/nodes.ts`. */
export const words: Words = {
  ...ofFleet,
  'Add node': '添加节点',
  'Add a node': '添加节点',
  'No node matches the filter.': '没有符合筛选条件的节点。',
  'A node is another machine that receives the releases of this server, in waves that stop if something is wrong.':
    '节点是接收本服务器发布内容的其他机器。发布分批进行，出现问题时会停止。',
  'Add a node: you get a command with a one-time token.': '添加节点：您会得到一条含一次性令牌的命令。',
  'Run the command on the machine. It connects to this server and appears here.':
    '在那台机器上运行该命令。它会连接到本服务器，并显示在这里。',
  'Place a project on it, in the tab “Nodes” of the project. The next push is rolled out there.':
    '在项目的“节点”页中，将项目放到该节点上。下一次推送就会发布到那里。',
  'Only an admin can add nodes.': '只有管理员可以添加节点。',
  'Waiting for their machine': '等待机器加入',
  '{count} connected': '{count} 个已连接',
  '{count} not connected': '{count} 个未连接',
  '{count} drained': '{count} 个已停用',
  'Undrain…': '恢复启用…',
  'Undrain {what}?': '恢复启用{what}？',
  'Undrain {what}': '恢复启用{what}',
  'Undrain {name}?': '恢复启用 {name}？',
  'Drain {what}?': '停用{what}？',
  'Drain {what}': '停用{what}',
  'Draining {what}': '正在停用{what}',
  'Undraining {what}': '正在恢复启用{what}',
  'Drained: {what}': '已停用：{what}',
  'Undrained: {what}': '已恢复启用：{what}',
  'Already drained: {what}': '此前已停用：{what}',
  'Not drained: {what}': '未停用：{what}',
  'Rollouts leave these nodes out from now on. What runs there continues, and a deployment that has begun finishes.':
    '此后的发布会跳过这些节点。正在其上运行的内容不受影响，已开始的部署会完成。',
  'Rollouts include these nodes again. Each gets the release that is desired now.':
    '此后的发布会重新包含这些节点。每个节点都会收到当前应有的版本。',
  Stop: '停止',

  'A one-time token lets one machine join the fleet. The machine only opens connections to this server; it needs no open port.':
    '一次性令牌允许一台机器加入。该机器只会主动连接本服务器，无需开放端口。',
  'Name of the node (optional)': '节点名称（可选）',
  'If empty, the machine proposes its host name.': '留空时，使用机器的主机名。',
  'Labels (optional)': '标签（可选）',
  'The token is valid for': '令牌有效期',
  'Create token': '创建令牌',
  'Copy the command now. It contains the token, which is not stored, and nobody can show it again.':
    '请立即复制命令。其中的令牌不会被保存，之后无法再次显示。',
  'Install svc on the machine.': '在该机器上安装 svc。',
  'Run this there, as the user that the deployments belong to:': '在那里以部署所属的用户运行：',
  'The node appears in the list as soon as it is connected.': '节点连接后会立即出现在列表中。',
  'The token is valid until {time}, for one machine.': '令牌可供一台机器使用，有效期至 {time}。',
  'The copied text contains the deploy token of the project.': '复制的文本含有项目的部署令牌。',
  '15 minutes': '15 分钟',
  '1 hour': '1 小时',
  '1 day': '1 天',
  '1 week': '1 周',
  'Any name': '任意名称',
  'valid until {time}': '有效期至 {time}',
  'created by {name}': '由 {name} 创建',
  Revoke: '吊销',
  'The token was revoked': '令牌已吊销',

  Project: '项目',
  'All projects': '所有项目',
  Label: '标签',
  'All labels': '所有标签',
  State: '状态',
  'All states': '所有状态',
  'Form of the list': '列表形式',
  Grid: '网格',
  List: '列表',
  'Without a project': '没有项目',
  'Show all {count} as a list': '以列表显示全部 {count} 个',
  '{size} free': '可用 {size}'
}
